//! What stands after the question mark of an address.

use hyper::StatusCode;
use lockspan_protocol::Record;
use lockspan_wire::PublicId;
use percent_encoding::percent_decode_str;

use super::guard::Refused;

/// Names with values, both decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    pub(super) fn read(text: Option<&str>) -> Self {
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).collect::<Vec<_>>();
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (name.to_owned(), decode(value))
                })
                .collect(),
        )
    }

    /// The bytes of a value; an empty one counts as not there.
    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &value[..]).filter(|value| !value.is_empty())
    }

    /// A number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Refused> {
        let Some(bytes) = self.bytes(name) else { return Ok(None) };
        let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        let why = || format!("{name}: {:?} is not a number", String::from_utf8_lossy(bytes));
        number.map(Some).ok_or_else(|| (StatusCode::BAD_REQUEST, why()))
    }

    /// How many of something, at most `most`.
    pub(super) fn count(&self, usual: usize, most: usize) -> Result<usize, Refused> {
        let number = self.number("count")?.map_or(usual, |count| count as usize);
        if (1..=most).contains(&number) {
            return Ok(number);
        }
        let why = format!("count: {number} is not between 1 and {most}");
        Err((StatusCode::BAD_REQUEST, why))
    }

    /// The record in `name`.
    pub(super) fn record(&self) -> Result<Record, Refused> {
        let name = self.bytes("name").unwrap_or_default();
        Record::parse(name).map_err(|why| {
            let why = format!("name: {:?}: {why}", String::from_utf8_lossy(name));
            (StatusCode::BAD_REQUEST, why)
        })
    }

    /// The session in `id`.
    pub(super) fn session(&self) -> Result<PublicId, Refused> {
        let why =
            || (StatusCode::BAD_REQUEST, "id: the public id of a session is required".to_owned());
        self.public("id")?.ok_or_else(why)
    }

    /// The public id of a session.
    pub(super) fn public(&self, name: &str) -> Result<Option<PublicId>, Refused> {
        let Some(bytes) = self.bytes(name) else { return Ok(None) };
        let why = || format!("{name}: {:?} is not a public id", String::from_utf8_lossy(bytes));
        let id = PublicId::read(bytes);
        id.map(Some).ok_or_else(|| (StatusCode::BAD_REQUEST, why()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_any_bytes() {
        let query = Query::read(Some("name=doc%3Aa%20b%ff&count=7&id=s4f2a9c01b7e3&x"));
        assert_eq!(query.record().unwrap().as_bytes(), b"doc:a b\xff");
        assert_eq!(query.count(1, 10), Ok(7));
        assert_eq!(query.session(), Ok(PublicId::read(b"s4f2a9c01b7e3").unwrap()));
        assert_eq!(query.bytes("x"), None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let query = Query::read(Some("name=doc&count=0&id=x"));
        let said = |bad: Refused| {
            assert_eq!(bad.0, StatusCode::BAD_REQUEST);
            bad.1
        };
        assert!(said(query.record().unwrap_err()).contains("no colon"));
        assert_eq!(said(query.count(1, 9).unwrap_err()), "count: 0 is not between 1 and 9");
        assert_eq!(said(query.session().unwrap_err()), "id: \"x\" is not a public id");
    }
}
