//! Certificates, keys and authorities, read from PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::files::{BadFile, ClientFiles, ServerFiles};

impl ServerFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, or does not contain what it should.
    pub fn load(&self) -> Result<Arc<ServerConfig>, BadFile> {
        let wrong = |why: rustls::Error| BadFile::new(&self.cert, unfit(&self.key, &why));
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?;
        let config = match &self.client_ca {
            None => config.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let verifier = verifier.build();
                config.with_client_cert_verifier(
                    verifier.map_err(|why| BadFile::new(path, why.to_string()))?,
                )
            }
        };
        let config = config.with_single_cert(chain(&self.cert)?, key(&self.key)?);
        config.map(Arc::new).map_err(wrong)
    }
}

impl ClientFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, or does not contain what it should.
    pub fn load(&self) -> Result<Arc<ClientConfig>, BadFile> {
        let roots = match &self.ca {
            Some(path) => authorities(path)?,
            None => of_the_system()?,
        };
        let wrong = |why: rustls::Error| BadFile { path: self.cert.clone(), why: why.to_string() };
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_root_certificates(roots);
        match (&self.cert, &self.key) {
            (None, None) => Ok(Arc::new(config.with_no_client_auth())),
            (Some(cert), Some(own)) => {
                let config = config.with_client_auth_cert(chain(cert)?, key(own)?);
                config.map(Arc::new).map_err(|why| BadFile::new(cert, unfit(own, &why)))
            }
            (Some(path), None) => {
                Err(BadFile::new(path, "the private key of this certificate is missing"))
            }
            (None, Some(path)) => Err(BadFile::new(path, "the certificate of this key is missing")),
        }
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

pub(crate) fn unfit(key: &Path, why: &rustls::Error) -> String {
    format!("it does not work with the key {}: {why}", key.display())
}

fn unreadable(path: &Path, what: &str, why: &pem::Error) -> BadFile {
    match why {
        pem::Error::Io(why) => BadFile::new(path, format!("can't read it: {why}")),
        pem::Error::NoItemsFound => {
            BadFile::new(path, format!("there is no {what} in it; it must be in PEM format"))
        }
        why => BadFile::new(path, format!("it has no valid {what}: {why}")),
    }
}

pub(crate) fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadFile> {
    let unreadable = |why: pem::Error| unreadable(path, "certificate", &why);
    let all = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    if all.is_empty() { Err(unreadable(pem::Error::NoItemsFound)) } else { Ok(all) }
}

pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, BadFile> {
    PrivateKeyDer::from_pem_file(path).map_err(|why| unreadable(path, "private key", &why))
}

fn authorities(path: &Path) -> Result<RootCertStore, BadFile> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(path)? {
        roots.add(certificate).map_err(|why| BadFile::new(path, why.to_string()))?;
    }
    Ok(roots)
}

fn of_the_system() -> Result<RootCertStore, BadFile> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Collections have odd ones among them, which nobody needs.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|why| format!(": {why}")).unwrap_or_default();
        let why = format!("the system has no certificates of authorities{why}; give a file");
        return Err(BadFile { path: None, why });
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let empty = dir.path().join("empty.pem");
        std::fs::write(&empty, "nothing\n").expect("written");
        let broken = dir.path().join("broken.pem");
        let text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        std::fs::write(&broken, text).expect("written");
        let gone = dir.path().join("gone.pem");
        let client = |ca: &Path, cert: Option<&Path>, key: Option<&Path>| ClientFiles {
            ca: Some(ca.to_owned()),
            cert: cert.map(Path::to_owned),
            key: key.map(Path::to_owned),
        };
        for (files, part) in [
            (client(&gone, None, None), "gone.pem: can't read it"),
            (client(&empty, None, None), "empty.pem: there is no certificate in it"),
            (client(&broken, None, None), "broken.pem: invalid peer certificate"),
        ] {
            let why = files.load().expect_err(part).to_string();
            assert!(why.contains(part), "{why}");
        }
        for (cert, key, part) in [
            (&gone, &empty, "gone.pem: can't read it"),
            (&broken, &empty, "empty.pem: there is no private key in it"),
        ] {
            let (cert, key) = (cert.clone(), key.clone());
            let files = ServerFiles { cert, key, client_ca: None };
            let why = files.load().expect_err(part).to_string();
            assert!(why.contains(part), "{why}");
        }
    }
}
