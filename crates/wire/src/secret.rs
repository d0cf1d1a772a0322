//! Passwords in memory: what holds one is overwritten before it is freed.
//!
//! [`Secret`] does so when its last copy is dropped, [`take_command`](crate::take_command) with the
//! frame of a login when it is taken, [`wipe`] with a whole buffer. A buffer that may hold a part
//! of a password must not grow in place, since the old allocation would be freed as it is:
//! [`move_and_wipe`] is for that.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use zeroize::{Zeroize as _, Zeroizing};

/// A password: [`Secret::reveal`] is the only way to its bytes, and [`fmt::Debug`] does not show
/// them. Clones share the bytes, which are overwritten when the last one is dropped.
///
/// ```
/// let password = lockspan_wire::Secret::copy(b"hunter2");
/// assert_eq!(format!("{password:?}"), "(secret)");
/// assert_eq!(password.reveal(), b"hunter2");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

impl Secret {
    /// Takes these bytes, without a copy.
    #[must_use]
    pub fn new(secret: Vec<u8>) -> Self {
        Self(Arc::new(Zeroizing::new(secret)))
    }

    /// A copy of these bytes. To overwrite the original is up to the caller.
    #[must_use]
    pub fn copy(secret: &[u8]) -> Self {
        Self::new(secret.to_vec())
    }

    /// The bytes themselves.
    #[must_use]
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Empties a buffer and overwrites its memory, also where something was taken from its front. What
/// other handles of the same memory hold stays.
pub fn wipe(buf: &mut BytesMut) {
    buf.clear();
    // `try_reclaim` moves an empty buffer back to the start of its memory. How long that is can't
    // be asked, so this finds it by halving.
    for step in (0..usize::BITS - 1).rev().map(|bit| 1_usize << bit) {
        while buf.capacity().checked_add(step).is_some_and(|size| buf.try_reclaim(size)) {}
    }
    buf.put_bytes(0, buf.capacity());
    // The compiler may leave out the zeros above, but not these.
    buf[..].zeroize();
    buf.clear();
}

/// Makes sure that there is room for `room` more bytes, as [`BytesMut::reserve`] does, and leaves
/// no copy of the content behind.
pub fn move_and_wipe(buf: &mut BytesMut, room: usize) {
    if buf.capacity() - buf.len() >= room {
        return;
    }
    let mut new = BytesMut::with_capacity(buf.len() + room);
    new.extend_from_slice(buf);
    wipe(buf);
    *buf = new;
}

// The tests read the memory of their own process, which Linux has as a file.
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use bytes::Buf as _;

    use super::*;
    use crate::{WireLimits, take_command};

    /// Where the memory of a buffer is, and what is in it later.
    struct Memory {
        start: u64,
        size: usize,
    }

    impl Memory {
        /// Of a buffer from which nothing was taken yet.
        fn of(buf: &BytesMut) -> Self {
            Self { start: buf.as_ptr() as u64, size: buf.capacity() }
        }

        fn read(&self) -> Vec<u8> {
            let mut bytes = vec![b'?'; self.size];
            let file = File::open("/proc/self/mem").expect("our own memory");
            file.read_exact_at(&mut bytes, self.start).expect("it is mapped");
            bytes
        }

        fn has(&self, text: &[u8]) -> bool {
            self.read().windows(text.len()).any(|part| part == text)
        }
    }

    #[test]
    fn service_f95_the_frame_of_a_login_is_overwritten_when_it_is_taken() {
        for (frame, is_kept) in [
            ("AUTH ann hunter2\r\n", false),
            ("AUTH hunter2\r\n", false),
            ("AUTH ann \"hunter2\"\r\n", false),
            ("HELLO 3 AUTH ann hunter2\r\n", false),
            ("*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$7\r\nhunter2\r\n", false),
            ("*2\r\n$4\r\nauth\r\n$7\r\nhunter2\r\n", false),
            ("AUHT ann hunter2\r\n", false),
            ("AUTH ann hunter2 x\r\n", false),
            ("HELLO 3 AUTH hunter2\r\n", false),
            ("PING hunter2\r\n", true),
        ] {
            let mut buf = BytesMut::with_capacity(1024);
            buf.extend_from_slice(frame.as_bytes());
            buf.extend_from_slice(b"PING");
            let memory = Memory::of(&buf);
            assert!(memory.has(b"hunter2"));
            let taken = take_command(&mut buf, &WireLimits::default()).expect("well formed");
            assert!(taken.is_some(), "{frame}");
            assert_eq!(memory.has(b"hunter2"), is_kept, "{frame}");
            assert_eq!(buf, "PING", "what follows it stays");
        }
    }

    #[test]
    fn service_f95_all_memory_of_a_wiped_buffer_is_overwritten() {
        for (size, taken) in [(64, 0), (64, 40), (4096, 4000), (10_000, 1)] {
            for is_split in [false, true] {
                let mut buf = BytesMut::with_capacity(size);
                buf.put_bytes(b'x', size);
                let memory = Memory::of(&buf);
                if is_split {
                    drop(buf.split_to(taken));
                } else {
                    buf.advance(taken);
                }
                wipe(&mut buf);
                assert!(memory.read().iter().all(|&byte| byte == 0), "{taken} of {size}");
                assert_eq!((buf.len(), buf.capacity()), (0, size), "it can be used again");
            }
        }
    }

    #[test]
    fn service_f95_a_buffer_that_needs_room_leaves_nothing_behind() {
        let mut buf = BytesMut::with_capacity(64);
        buf.extend_from_slice(b"PING\r\nAUTH ann hunt");
        let memory = Memory::of(&buf);
        buf.advance(6);
        move_and_wipe(&mut buf, 40);
        assert_eq!((buf.as_ptr() as u64, &buf[..]), (memory.start + 6, &b"AUTH ann hunt"[..]));
        move_and_wipe(&mut buf, 1000);
        assert!(buf.capacity() >= 1013 && buf == "AUTH ann hunt");
        assert!(!memory.has(b"hunt"));
    }

    #[test]
    fn service_f95_a_secret_is_overwritten_when_its_last_clone_goes() {
        let secret = Secret::copy(&b"hunter2 ".repeat(16));
        // An allocator writes at the front of what is freed.
        let memory = Memory { start: secret.reveal().as_ptr() as u64 + 32, size: 64 };
        let clone = secret.clone();
        drop(secret);
        assert!(memory.has(b"hunter2"), "there is another one");
        drop(clone);
        assert!(!memory.has(b"hunter2"));
    }
}
