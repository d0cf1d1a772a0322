//! What a failed TLS connection says about the other side, so that a program can tell what to do.

use std::io;

#[cfg(feature = "rustls")]
use rustls::{AlertDescription, CertificateError, Error};

/// Why a TLS connection failed, as far as a person can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsTrouble {
    /// The other side does not speak TLS.
    NotTls,
    /// No authority that we trust has signed the server's certificate.
    UnknownIssuer,
    /// The server's certificate is one of a certificate authority, not one of a server.
    AuthorityCertificate,
    /// The server's certificate is for another name.
    WrongName,
    /// The server's certificate has expired.
    Expired,
    /// The server's certificate is not valid yet.
    NotYetValid,
    /// The server wants to see a certificate of the client, and was shown none.
    NeedsCertificate,
    /// The server refused the client's certificate.
    RefusedCertificate,
    /// Something else; the text of the error says what.
    Other,
}

/// How webpki calls a certificate of an authority in the place of a server's.
#[cfg(feature = "rustls")]
const CA_USED: &str = "CaUsedAsEndEntity";

impl TlsTrouble {
    /// What this error of a connection means; `None` if it is not one of TLS.
    #[cfg(not(feature = "rustls"))]
    #[must_use]
    pub fn of(_: &io::Error) -> Option<Self> {
        None
    }

    /// What this error of a connection means; `None` if it is not one of TLS.
    #[cfg(feature = "rustls")]
    #[must_use]
    pub fn of(why: &io::Error) -> Option<Self> {
        let why = why.get_ref()?.downcast_ref::<Error>()?;
        Some(match why {
            Error::InvalidMessage(_) => Self::NotTls,
            Error::InvalidCertificate(why) => match why {
                // The last two: an authority of the same name is trusted, and has another key.
                CertificateError::UnknownIssuer
                | CertificateError::BadSignature
                | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
                    Self::UnknownIssuer
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Self::WrongName,
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    Self::Expired
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Self::NotYetValid
                }
                // rustls has no name for it: it passes on the error of webpki.
                CertificateError::Other(why) if why.to_string().contains(CA_USED) => {
                    Self::AuthorityCertificate
                }
                _ => Self::Other,
            },
            Error::AlertReceived(alert) => match alert {
                AlertDescription::CertificateRequired => Self::NeedsCertificate,
                AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateUnknown
                | AlertDescription::DecryptError => Self::RefusedCertificate,
                _ => Self::Other,
            },
            _ => Self::Other,
        })
    }
}

#[cfg(all(test, feature = "rustls"))]
mod tests {
    use rustls::InvalidMessage;

    use super::*;

    #[test]
    fn errors_of_tls_are_told_from_others() {
        let of = |why| TlsTrouble::of(&io::Error::new(io::ErrorKind::InvalidData, why));
        for (why, trouble) in [
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), TlsTrouble::NotTls),
            (CertificateError::UnknownIssuer.into(), TlsTrouble::UnknownIssuer),
            (CertificateError::BadSignature.into(), TlsTrouble::UnknownIssuer),
            (CertificateError::NotValidForName.into(), TlsTrouble::WrongName),
            (CertificateError::Expired.into(), TlsTrouble::Expired),
            (
                Error::AlertReceived(AlertDescription::CertificateRequired),
                TlsTrouble::NeedsCertificate,
            ),
            (Error::AlertReceived(AlertDescription::UnknownCA), TlsTrouble::RefusedCertificate),
            (Error::DecryptError, TlsTrouble::Other),
        ] {
            assert_eq!(of(why.clone()), Some(trouble), "{why}");
        }
        assert_eq!(TlsTrouble::of(&io::ErrorKind::UnexpectedEof.into()), None);
    }
}
