//! What can be the id of a record: bytes, text, integers, UUIDs.
//!
//! A blanket implementation takes everything that is bytes. Rust allows implementations for
//! integers beside it only if they are of another trait, so the trait has a parameter that tells
//! the two apart; the compiler infers it.

use std::borrow::Cow;

/// Parameter of [`RecordId`] for ids that are bytes already.
#[derive(Clone, Copy, Debug)]
pub enum AsBytes {}

/// Parameter of [`RecordId`] for ids that are turned into text, such as integers.
#[derive(Clone, Copy, Debug)]
pub enum AsText {}

/// The id of a record, the second half of its name `<datatype>:<id>`.
///
/// | type | the id is |
/// |---|---|
#[doc = concat!(
    " | `&str`, `String`, `&[u8]`, `Vec<u8>`, `[u8; N]`, and whatever else is ",
    "`AsRef<[u8]>` | its bytes |",
)]
/// | integers of all widths, and references to them | decimal text |
/// | `uuid::Uuid`, with the feature `uuid` | hyphenated lower-case text |
///
/// ```
/// use lockspan_protocol::Record;
///
/// assert_eq!(Record::new("invoice", 42)?, Record::new("invoice", "42")?);
/// assert_eq!(Record::new("shift", -7_i64)?.as_bytes(), b"shift:-7");
/// assert_eq!(Record::new("page", vec![b'a', b'b'])?.as_bytes(), b"page:ab");
/// # Ok::<(), lockspan_protocol::BadName>(())
/// ```
///
/// A type of your own is an id if it is `AsRef<[u8]>`, or else if it implements this trait with
/// [`AsText`]. If it were both, calls would be ambiguous.
///
/// ```
/// use std::borrow::Cow;
/// use lockspan_protocol::{AsText, Record, RecordId};
///
/// struct InvoiceNumber { year: u16, number: u32 }
///
/// impl RecordId<AsText> for InvoiceNumber {
///     fn to_id(&self) -> Cow<'_, [u8]> {
///         format!("{}-{:04}", self.year, self.number).into_bytes().into()
///     }
/// }
///
/// let name = Record::new("invoice", InvoiceNumber { year: 2026, number: 17 })?;
/// assert_eq!(name.as_bytes(), b"invoice:2026-0017");
/// # Ok::<(), lockspan_protocol::BadName>(())
/// ```
///
/// # UUIDs
///
/// A `Uuid` is also `AsRef<[u8]>`. *Without* the feature `uuid` it is therefore taken as its 16 raw
/// bytes, which is another record than its text. All programs that lock a record have to agree:
/// switch the feature on, or pass `uuid.to_string()`, which is the same text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the id of a record",
    note = "ids are integers, text, or bytes (`AsRef<[u8]>`); others can be passed as text: \
            `.to_string()`"
)]
pub trait RecordId<As> {
    /// The bytes of the id.
    fn to_id(&self) -> Cow<'_, [u8]>;
}

impl<T: AsRef<[u8]>> RecordId<AsBytes> for T {
    fn to_id(&self) -> Cow<'_, [u8]> {
        #[cfg(feature = "uuid")]
        if is_uuid::<T>()
            && let Ok(uuid) = uuid::Uuid::from_slice(self.as_ref())
        {
            return uuid.to_string().into_bytes().into();
        }
        self.as_ref().into()
    }
}

/// Whether a type is a UUID or a reference to one, which the blanket implementation has to tell
/// from other bytes.
#[cfg(feature = "uuid")]
fn is_uuid<T: ?Sized>() -> bool {
    use typeid::of;
    use uuid::Uuid;
    let this = of::<T>();
    this == of::<Uuid>()
        || this == of::<&Uuid>()
        || this == of::<&mut Uuid>()
        || this == of::<&&Uuid>()
        || this == of::<&&&Uuid>()
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl RecordId<AsText> for $integer {
            fn to_id(&self) -> Cow<'_, [u8]> {
                self.to_string().into_bytes().into()
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize }

impl<T: RecordId<AsText> + ?Sized> RecordId<AsText> for &T {
    fn to_id(&self) -> Cow<'_, [u8]> {
        (**self).to_id()
    }
}

#[cfg(test)]
#[expect(clippy::needless_borrows_for_generic_args, reason = "references are ids too")]
mod tests {
    use super::*;
    use crate::Record;

    fn named<As>(id: impl RecordId<As>) -> String {
        Record::new("a", id).unwrap().to_string()
    }

    #[test]
    fn integers_are_decimal_text() {
        assert_eq!(named(42), "a:42");
        assert_eq!(named(&42_u64), "a:42");
        assert_eq!(named(&&-42_i8), "a:-42");
        assert_eq!((named(7_u8), named(7_u16), named(7_u32)), (named("7"), named("7"), named("7")));
        assert_eq!(
            (named(7_i16), named(7_i32), named(7_i64)),
            (named("7"), named("7"), named("7"))
        );
        assert_eq!((named(7_usize), named(-7_isize)), (named("7"), named("-7")));
        assert_eq!(named(u64::MAX), "a:18446744073709551615");
        assert_eq!(named(u128::MAX), "a:340282366920938463463374607431768211455");
        assert_eq!(named(i128::MIN), "a:-170141183460469231731687303715884105728");
    }

    #[test]
    fn whatever_is_bytes_is_an_id_as_it_is() {
        /// A caller that is generic over bytes.
        fn generic(id: impl AsRef<[u8]>) -> String {
            named(id)
        }
        struct Own([u8; 2]);
        impl AsRef<[u8]> for Own {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        let text = "42".to_owned();
        let all = [
            named("42"),
            named(&"42"),
            named(&text),
            named(text.clone()),
            named(text.as_bytes()),
            named(text.as_bytes().to_vec()),
            named(b"42"),
            named(*b"42"),
            named(Cow::Borrowed(text.as_bytes())),
            named(Box::<[u8]>::from(text.as_bytes())),
            named(Own(*b"42")),
            generic("42"),
            generic(Own(*b"42")),
        ];
        assert!(all.iter().all(|name| name == "a:42"), "{all:?}");
    }

    #[cfg(feature = "uuid")]
    #[test]
    fn a_uuid_is_hyphenated_text() {
        let text = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        let mut uuid = uuid::Uuid::parse_str(text).unwrap();
        let expected = format!("a:{text}");
        assert_eq!(named(uuid), expected);
        assert_eq!(named(&uuid), expected);
        assert_eq!(named(&&uuid), expected);
        assert_eq!(named(&mut uuid), expected);
        assert_eq!(named(uuid.to_string()), expected);
        // Other bytes of the same length are not a UUID.
        assert_eq!(named(b"0123456789abcdef"), "a:0123456789abcdef");
    }
}
