//! Where a login comes from.
//!
//! | peer | its place | its network |
//! |---|---|---|
//! | IPv4 | the address | its /24 |
//! | IPv6 | the /64 | its /48 |
//! | a socket file, or loopback (127.0.0.0/8, `::1`) | the peer's uid | the same |
//! | loopback, and the uid can't be told | all of loopback | the same |
//!
//! A place is what one user or machine has: behind one IPv4 address there may be an office, but an
//! attacker with one address gets no second place. A network is what an attacker with some money
//! has: it shares bounds of its own, see `tries` and `queue`, which are wide enough for an office.
//! An IPv4 address that is written as an IPv6 one (`::ffff:10.0.0.1`) is an IPv4 address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where somebody comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// An address of a network.
    Ip(IpAddr),
    /// A process of this machine, by the number of its Unix user, if that is known.
    Unix(Option<u32>),
}

impl Place {
    /// The place itself: all addresses that one machine can easily have are one.
    pub(crate) fn network(self) -> Self {
        self.masked(32, 64)
    }

    /// The network that it is part of.
    pub(super) fn wider(self) -> Self {
        self.masked(24, 48)
    }

    /// Whether this is an address that only processes of this machine can have, so that the system
    /// knows whose it is.
    pub(crate) fn is_loopback(self) -> bool {
        matches!(self, Self::Ip(address) if address.to_canonical().is_loopback())
    }

    fn masked(self, bits_of_v4: u32, bits_of_v6: u32) -> Self {
        let Self::Ip(address) = self else { return self };
        match address.to_canonical() {
            address if address.is_loopback() => Self::Unix(None),
            IpAddr::V4(address) => {
                let mask = u32::MAX << (32 - bits_of_v4);
                Self::Ip(Ipv4Addr::from(u32::from(address) & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - bits_of_v6);
                Self::Ip(Ipv6Addr::from(u128::from(address) & mask).into())
            }
        }
    }

    /// Its bytes, which differ for different places.
    pub(super) fn bytes(self) -> [u8; 18] {
        let mut bytes = [0; 18];
        match self {
            Self::Ip(IpAddr::V4(address)) => {
                bytes[0] = 4;
                bytes[1..5].copy_from_slice(&address.octets());
            }
            Self::Ip(IpAddr::V6(address)) => {
                bytes[0] = 6;
                bytes[1..17].copy_from_slice(&address.octets());
            }
            Self::Unix(None) => bytes[0] = 1,
            Self::Unix(Some(uid)) => {
                bytes[0] = 2;
                bytes[1..5].copy_from_slice(&uid.to_be_bytes());
            }
        }
        bytes
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(None) => f.write_str("this machine"),
            Self::Unix(Some(uid)) => write!(f, "this machine, uid {uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Place {
        Place::Ip(text.parse().expect(text))
    }

    #[test]
    fn service_f90_what_one_machine_can_easily_have_is_one_place() {
        for (address, place, network) in [
            ("10.1.2.3", ip("10.1.2.3"), ip("10.1.2.0")),
            ("::ffff:10.1.2.3", ip("10.1.2.3"), ip("10.1.2.0")),
            ("2001:db8:1:2:3:4:5:6", ip("2001:db8:1:2::"), ip("2001:db8:1::")),
            ("127.0.0.1", Place::Unix(None), Place::Unix(None)),
            ("127.200.3.4", Place::Unix(None), Place::Unix(None)),
            ("::1", Place::Unix(None), Place::Unix(None)),
            ("::ffff:127.9.9.9", Place::Unix(None), Place::Unix(None)),
        ] {
            assert_eq!((ip(address).network(), ip(address).wider()), (place, network), "{address}");
            assert_eq!(ip(address).is_loopback(), place == Place::Unix(None), "{address}");
        }
        for uid in [None, Some(0), Some(1000)] {
            let place = Place::Unix(uid);
            assert_eq!((place.network(), place.wider()), (place, place));
        }
    }

    #[test]
    fn places_have_different_bytes() {
        let all = [
            ip("0.0.0.0"),
            ip("0.0.0.2"),
            ip("::"),
            ip("2::"),
            Place::Unix(None),
            Place::Unix(Some(0)),
            Place::Unix(Some(2)),
        ];
        let mut bytes: Vec<_> = all.iter().map(|place| place.bytes()).collect();
        bytes.sort_unstable();
        bytes.dedup();
        assert_eq!(bytes.len(), all.len());
    }
}
