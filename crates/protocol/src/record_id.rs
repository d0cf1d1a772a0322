//! What can be the id of a record: text, bytes, integers, UUIDs.
//!
//! The trait is implemented type by type, and not for everything that is `AsRef<[u8]>`: a `Uuid`
//! is `AsRef<[u8]>` too, and would without the feature `uuid` become its 16 raw bytes, which is
//! another record than its text. Now it does not compile without the feature.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// The id of a record, the second half of its name `<datatype>:<id>`.
///
/// | type | the id is |
/// |---|---|
/// | `str`, `String` | its bytes |
/// | `[u8]`, `[u8; N]`, `Vec<u8>` | the bytes |
/// | integers of all widths | decimal text |
/// | `uuid::Uuid`, with the feature `uuid` | hyphenated lower-case text |
/// | `&T`, `&mut T`, `Box<T>`, `Rc<T>`, `Arc<T>`, `Cow<T>` of these | as `T` |
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
/// Implement it for a type of your own:
///
/// ```
/// use std::borrow::Cow;
/// use lockspan_protocol::{Record, RecordId};
///
/// struct InvoiceNumber { year: u16, number: u32 }
///
/// impl RecordId for InvoiceNumber {
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
/// A type of another crate that is bytes, such as `bytes::Bytes`, is passed as a slice: `&id[..]`
/// or `id.as_ref()`.
///
/// # UUIDs
///
/// With the feature `uuid` a `uuid::Uuid` is the same id as its text. Without the feature it does
/// not compile; `uuid.to_string()` always does, and is the same record.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the id of a record",
    note = "ids are integers, text or bytes: pass others as `&id.to_string()` or `&id[..]`, or \
            implement `RecordId`",
    note = "a `uuid::Uuid` is an id with the feature `uuid`, or as `&id.to_string()`"
)]
pub trait RecordId {
    /// The bytes of the id.
    fn to_id(&self) -> Cow<'_, [u8]>;
}

impl RecordId for [u8] {
    fn to_id(&self) -> Cow<'_, [u8]> {
        self.into()
    }
}

impl RecordId for str {
    fn to_id(&self) -> Cow<'_, [u8]> {
        self.as_bytes().into()
    }
}

impl RecordId for String {
    fn to_id(&self) -> Cow<'_, [u8]> {
        self.as_bytes().into()
    }
}

impl RecordId for Vec<u8> {
    fn to_id(&self) -> Cow<'_, [u8]> {
        self.into()
    }
}

impl<const N: usize> RecordId for [u8; N] {
    fn to_id(&self) -> Cow<'_, [u8]> {
        self.as_slice().into()
    }
}

#[cfg(feature = "uuid")]
impl RecordId for uuid::Uuid {
    fn to_id(&self) -> Cow<'_, [u8]> {
        self.to_string().into_bytes().into()
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl RecordId for $integer {
            fn to_id(&self) -> Cow<'_, [u8]> {
                self.to_string().into_bytes().into()
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize }

macro_rules! pointers {
    ($($pointer:ty)*) => {$(
        impl<T: RecordId + ?Sized> RecordId for $pointer {
            fn to_id(&self) -> Cow<'_, [u8]> {
                (**self).to_id()
            }
        }
    )*};
}

pointers! { &T &mut T Box<T> Rc<T> Arc<T> }

impl<T: RecordId + ToOwned + ?Sized> RecordId for Cow<'_, T> {
    fn to_id(&self) -> Cow<'_, [u8]> {
        (**self).to_id()
    }
}

#[cfg(test)]
#[expect(clippy::needless_borrows_for_generic_args, reason = "references are ids too")]
mod tests {
    use super::*;
    use crate::Record;

    fn named(id: impl RecordId) -> String {
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
    fn text_and_bytes_are_an_id_as_they_are() {
        let mut text = "42".to_owned();
        let all = [
            named("42"),
            named(&"42"),
            named(&mut text),
            named(&text),
            named(text.clone()),
            named(text.as_bytes()),
            named(text.as_bytes().to_vec()),
            named(&text.as_bytes().to_vec()),
            named(b"42"),
            named(*b"42"),
            named(Cow::Borrowed(text.as_bytes())),
            named(Cow::<'_, str>::Owned(text.clone())),
            named(Box::<[u8]>::from(text.as_bytes())),
            named(Rc::<str>::from("42")),
            named(Arc::<str>::from("42")),
            named(Arc::new(42)),
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
