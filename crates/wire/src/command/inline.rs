//! Commands typed by hand: a line of words, quoted as `redis-cli` and the shell of Redis take them.
//!
//! In `"..."` the escapes `\n \r \t \b \a \\ \"` and `\xHH` count, in `'...'` only `\'`. A closing
//! quote ends its word.

use zeroize::Zeroizing;

/// A quote is not closed, or something follows a closing one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unbalanced;

/// The words of a line. They are wiped when they are dropped: one may be a password.
pub(crate) fn split(line: &[u8]) -> Result<Vec<Zeroizing<Vec<u8>>>, Unbalanced> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Ok(words)
}

/// The first word, and what follows it.
fn word(mut rest: &[u8]) -> Result<(Zeroizing<Vec<u8>>, &[u8]), Unbalanced> {
    // A vector that grows would leave its old content behind.
    let mut word = Zeroizing::new(Vec::with_capacity(rest.len()));
    loop {
        match rest {
            [] => return Ok((word, rest)),
            [quote @ (b'"' | b'\''), inside @ ..] => {
                let after = if *quote == b'"' {
                    double_quoted(inside, &mut word)?
                } else {
                    single_quoted(inside, &mut word)?
                };
                return match after.first() {
                    Some(byte) if !byte.is_ascii_whitespace() => Err(Unbalanced),
                    _ => Ok((word, after)),
                };
            }
            [byte, ..] if byte.is_ascii_whitespace() => return Ok((word, rest)),
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return Err(Unbalanced),
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        rest = match rest {
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return Err(Unbalanced),
        }
    }
}

fn hex(digit: u8) -> u8 {
    (digit as char).to_digit(16).map_or(0, |value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        split(line.as_bytes()).unwrap().iter().map(|word| word.to_vec()).collect()
    }

    #[test]
    fn words_are_divided_by_white_space() {
        assert_eq!(words("  LS.KEEP \t 7  "), [b"LS.KEEP".to_vec(), b"7".to_vec()]);
        assert!(words("").is_empty());
        assert!(words(" \t ").is_empty());
    }

    #[test]
    fn quotes_keep_spaces_and_escapes() {
        assert_eq!(words(r#""a b" 'c d'"#), [b"a b".to_vec(), b"c d".to_vec()]);
        assert_eq!(words(r#""\x00\xfF\n\r\t\b\a\\\"\q\x0""#), [b"\0\xff\n\r\t\x08\x07\\\"qx0"]);
        assert_eq!(words(r"'it\'s \n'"), [br"it's \n".to_vec()]);
        assert_eq!(words(r#"doc:"a b""#), [b"doc:a b".to_vec()]);
        assert_eq!(words(r#""""#), [b"".to_vec()]);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_refused() {
        for line in [r#""a"#, "'a", r#""a"b"#, "'a'b", r#""a\"#, r#"""""#] {
            assert_eq!(split(line.as_bytes()), Err(Unbalanced), "{line}");
        }
    }
}
