//! What is not wrong with a server's certificate and key, but should be known when it starts.
//!
//! The time of a certificate and the size of a key are found without a parser of our own: the
//! verifier is asked whether the certificate is valid at a time, and a signature of RSA is as long
//! as its key.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore, SignatureAlgorithm, SignatureScheme};

use crate::files::{BadFile, ServerFiles};
use crate::load::{chain, key, provider, unfit};

/// Before a certificate ends, this is how long it is told that it will.
const SOON: Duration = Duration::from_secs(14 * DAY);

const DAY: u64 = 24 * 3600;

/// RSA keys with more bits make handshakes slow.
const RSA_BITS: usize = 2048;

impl ServerFiles {
    /// [`ServerFiles::concerns`] of this moment. Certificates have dates, so this is the one place
    /// that reads the wall clock; no lease depends on it.
    pub fn present_concerns(&self) -> Result<Vec<String>, BadFile> {
        self.concerns(SystemTime::now())
    }

    /// Sentences for a log: a certificate that is not valid at the time `now`, or not for much
    /// longer, and a key that makes handshakes slow.
    pub fn concerns(&self, now: SystemTime) -> Result<Vec<String>, BadFile> {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let chain = chain(&self.cert)?;
        let time = chain.iter().filter_map(|cert| time(&self.cert, cert, now));
        Ok(time.chain(self.slow_key()?).collect())
    }

    fn slow_key(&self) -> Result<Option<String>, BadFile> {
        let wrong = |why: Error| BadFile::new(&self.cert, unfit(&self.key, &why));
        let key = provider().key_provider.load_private_key(key(&self.key)?).map_err(wrong)?;
        let signer = match key.algorithm() {
            SignatureAlgorithm::RSA => key.choose_scheme(&[SignatureScheme::RSA_PSS_SHA256]),
            _ => None,
        };
        let Some(signer) = signer else { return Ok(None) };
        let bits = signer.sign(b"").map_err(wrong)?.len() * 8;
        Ok((bits > RSA_BITS).then(|| {
            format!(
                "{}: with an RSA key of {bits} bits each handshake takes milliseconds, so clients \
                 can overload the server; use a P-256 key",
                self.key.display()
            )
        }))
    }
}

/// What is to be said about the time of a certificate.
fn time(path: &Path, cert: &CertificateDer<'_>, now: Duration) -> Option<String> {
    let what = match (invalid(cert, now), invalid(cert, now + SOON)) {
        (Some(Invalid::Before), _) => "is not valid yet; clients refuse it".to_owned(),
        (Some(Invalid::After(_)), _) => "has expired; clients refuse it".to_owned(),
        (None, Some(Invalid::After(end))) => {
            let days = end.saturating_sub(now).as_secs() / DAY + 1;
            format!("expires within {days} days; then clients refuse it")
        }
        _ => return None,
    };
    Some(format!("{}: a certificate in it {what}", path.display()))
}

/// Why a certificate is not valid at a time.
enum Invalid {
    Before,
    /// It has ended then, so long after 1970.
    After(Duration),
}

/// The time is the first thing that the verifier looks at, before it finds that it trusts nobody.
fn invalid(cert: &CertificateDer<'_>, at: Duration) -> Option<Invalid> {
    let cert = ParsedCertificate::try_from(cert).ok()?;
    let (at, nobody) = (UnixTime::since_unix_epoch(at), RootCertStore::empty());
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms.all;
    match verify_server_cert_signed_by_trust_anchor(&cert, &nobody, &[], at, algorithms) {
        Err(Error::InvalidCertificate(why)) => match why {
            CertificateError::ExpiredContext { not_after, .. } => {
                Some(Invalid::After(Duration::from_secs(not_after.as_secs())))
            }
            CertificateError::NotValidYetContext { .. } => Some(Invalid::Before),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Certificates, openssl};

    #[test]
    fn service_f104_the_time_of_a_certificate_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = Certificates::make(dir.path());
        let (cert, key) = (made.pem("server"), made.key("server"));
        // An authority's own certificate is one that servers may show after theirs.
        let both = [&cert, &made.pem("ca")].map(|path| std::fs::read(path).expect("read")).concat();
        std::fs::write(dir.path().join("both.pem"), both).expect("written");
        let files = ServerFiles { cert, key, client_ca: None };
        let long = ServerFiles { cert: dir.path().join("both.pem"), ..files.clone() };
        let now = SystemTime::now();
        let day = Duration::from_secs(DAY);
        for (at, expected) in [
            (now - day, "server.pem: a certificate in it is not valid yet; clients refuse it"),
            (now, "server.pem: a certificate in it expires within 2 days; then clients refuse it"),
            (now + 5 * day, "server.pem: a certificate in it has expired; clients refuse it"),
        ] {
            let said = files.concerns(at).expect("good files");
            assert!(said.len() == 1 && said[0].contains(expected), "{said:?}");
            assert_eq!(long.concerns(at).expect("good files").len(), 2, "one for each");
        }
        openssl(
            dir.path(),
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout good.key \
             -out good.pem -subj /CN=good -days 30",
        );
        let (cert, key) = (made.pem("good"), made.key("good"));
        let good = ServerFiles { cert, key, client_ca: None };
        // Made a moment later, so it was not valid yet at the time above.
        let now = SystemTime::now();
        assert_eq!(good.concerns(now).expect("good files"), [""; 0]);
        assert_eq!(good.concerns(now + 15 * day).expect("good files").len(), 0);
        assert_eq!(good.concerns(now + 17 * day).expect("good files").len(), 1);
    }

    #[test]
    fn service_f104_a_key_that_makes_handshakes_slow_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let of = |name: &str, key: &str| {
            let files = format!("-keyout {name}.key -out {name}.pem -subj /CN={name} -days 30");
            openssl(dir.path(), &format!("req -x509 -newkey {key} -nodes {files}"));
            let path = |ending| dir.path().join(format!("{name}.{ending}"));
            let files = ServerFiles { cert: path("pem"), key: path("key"), client_ca: None };
            files.concerns(SystemTime::now()).expect("good files")
        };
        assert_eq!(of("usual", "rsa:2048"), [""; 0]);
        let said = of("slow", "rsa:3072");
        let expected = "slow.key: with an RSA key of 3072 bits each handshake takes milliseconds";
        assert!(said.len() == 1 && said[0].contains(expected), "{said:?}");
    }
}
