//! What the optional features `serde` and `uuid` add to locks on records.

#![forbid(unsafe_code)]
#![cfg(any(feature = "serde", feature = "uuid"))]

#[cfg(feature = "uuid")]
#[test]
fn a_uuid_names_the_same_record_as_its_text() {
    let locks = lockspan::blocking_connect("memory:uuid").unwrap();
    let text = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    let uuid = uuid::Uuid::parse_str(text).unwrap();
    let by_uuid = locks.record("invoice", uuid).unwrap();
    assert_eq!(by_uuid.name(), locks.record("invoice", text).unwrap().name());
}

#[cfg(feature = "serde")]
#[test]
fn the_token_of_a_guard_is_serialized_as_its_number() {
    let locks = lockspan::blocking_connect("memory:serde").unwrap();
    let record = locks.record("invoice", 42).unwrap();
    let token = record.blocking_write().unwrap().token();
    let json = serde_json::to_string(&token).unwrap();
    assert_eq!(json, token.to_string());
    assert_eq!(serde_json::from_str::<lockspan::Token>(&json).unwrap(), token);
}
