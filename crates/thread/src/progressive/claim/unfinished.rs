//! How a transition of two steps ends when its time is over.

/// Where a caller is whose transition has two steps and did not come to its end in time.
///
/// A transition of one step is simply taken back. After the first of two steps, others may have
/// moved on so that the caller's state before cannot be had at once: an atomic that joins again for
/// the next round cannot be an atomic while others of its phase already read, and a joiner or a
/// claimant that gives up cannot be that again while others change the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished<B = (), H = ()> {
    /// In the state before the call.
    Back(B),
    /// In the state between the two steps. From there the caller can go on, or give up.
    HalfWay(H),
}
