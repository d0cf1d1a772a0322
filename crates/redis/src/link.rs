//! The connection to Redis: to one server, to the master that sentinels name, or to a cluster.
//!
//! What other nodes publish for us comes over the same connection where the server speaks RESP3,
//! else over a second one.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt as _;
use lockspan_park::fork::BoundFuture;
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo as _,
    ProtocolVersion, PushInfo, PushKind, RedisError, ServerErrorKind, TlsMode, Value,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{sleep, timeout};

use crate::identity::ALL;
use crate::script::{self, Call};
use crate::url::Place;

/// How every TCP connection is set up. Two scripts go out one after the other: the second does not
/// wait for the first's answer. A server that vanished without a word is noticed after 90 s, even
/// by a connection that only listens.
fn tcp() -> TcpSettings {
    let (idle, probe) = (Duration::from_secs(60), Duration::from_secs(10));
    let keepalive = TcpKeepalive::new().with_time(idle).with_interval(probe).with_retries(3);
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive)
}

/// What comes without being asked for.
#[derive(Debug)]
pub(crate) enum Word {
    /// Somebody has published this for us.
    Said(Vec<u8>),
    /// A connection has ended.
    Gone,
    /// The second connection, over which we hear, has ended.
    Deaf,
}

/// Where words go, with the number of the connection over which they came.
pub(crate) type Words = UnboundedSender<(u64, Word)>;

/// A connection. Cheap to clone.
#[derive(Clone)]
#[expect(dead_code, reason = "a listener lives as long as its link, and that is all")]
pub(crate) enum Link {
    One(MultiplexedConnection, Option<Arc<Listener>>),
    Cluster(ClusterConnection, Option<Arc<Listener>>),
}

/// The task that hears over a connection beside; it ends with the link that it belongs to.
pub(crate) struct Listener(AbortHandle);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.heals() { "Cluster" } else { "One" })
    }
}

impl Link {
    /// Whether it connects again by itself.
    pub(crate) fn heals(&self) -> bool {
        matches!(self, Self::Cluster(..))
    }

    async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        let value = match self {
            Self::One(connection, _) => connection.send_packed_command(command).await?,
            Self::Cluster(connection, _) => connection.req_packed_command(command).await?,
        };
        value.extract_error()
    }

    /// Leaves word for a node. Nobody waits for it, and nothing depends on it.
    pub(crate) fn publish(&self, channel: &str, word: &[u8]) {
        let (mut link, mut publish) = (self.clone(), redis::cmd("PUBLISH"));
        publish.arg(channel).arg(word);
        spawn(async move {
            if let Err(why) = link.send(&publish).await {
                tracing::debug!(%why, "a question of another node was not answered");
            }
        });
    }

    /// Calls a script. The request is on its way after the first poll of what this returns.
    pub(crate) fn call(
        &self,
        call: &Call<'_>,
    ) -> impl Future<Output = Result<Value, RedisError>> + Send + 'static {
        let (short, long) = call.commands();
        let mut link = self.clone();
        async move {
            match link.send(&short).await {
                Err(why) if why.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    link.send(&long()).await
                }
                answered => answered,
            }
        }
    }
}

/// How to connect.
#[derive(Debug)]
pub(crate) struct Dial {
    pub(crate) place: Place,
    /// Our own channel; none if we hear nothing.
    pub(crate) channel: Option<String>,
    /// How long an answer may take.
    pub(crate) patience: Duration,
    pub(crate) words: Words,
}

impl Dial {
    /// Connects as the connection with this number.
    pub(crate) async fn connect(&self, number: u64) -> Result<Link, RedisError> {
        #[cfg(feature = "tls")]
        if self.place.has_tls() {
            choose_provider();
        }
        // Whoever accepts and says nothing must not be waited for.
        let connecting = timeout(self.patience * 4, self.connect_and_load(number));
        connecting.await.unwrap_or_else(|_| {
            let kind = std::io::ErrorKind::TimedOut;
            Err(RedisError::from(std::io::Error::new(kind, "timeout while connecting")))
        })
    }

    async fn connect_and_load(&self, number: u64) -> Result<Link, RedisError> {
        let link = match self.connect_by(ProtocolVersion::RESP3, number).await {
            Err(why) if has_no_resp3(&why) => self.connect_by(ProtocolVersion::RESP2, number).await,
            connected => connected,
        };
        let mut link = link?;
        for load in script::loads(self.channel.is_none()) {
            match link.send(&load).await {
                Err(why) if why.is_io_error() => return Err(why),
                // Who may not load scripts brings them with the first call.
                _ => {}
            }
        }
        Ok(link)
    }

    /// Tells whom to connect to, and how to speak to it.
    fn client(url: &str, by: ProtocolVersion) -> Result<Client, RedisError> {
        let info = url.into_connection_info()?;
        let settings = info.redis_settings().clone().set_protocol(by);
        Client::open(info.set_redis_settings(settings).set_tcp_settings(tcp()))
    }

    async fn connect_by(&self, by: ProtocolVersion, number: u64) -> Result<Link, RedisError> {
        match &self.place {
            Place::One(url) => self.connect_one(&Self::client(url, by)?, by, number).await,
            Place::Sentinel { sentinels, master, login } => {
                let client = find_master(sentinels, master, login, by).await?;
                self.connect_one(&client, by, number).await
            }
            Place::Cluster(urls) => self.connect_cluster(urls, by, number).await,
        }
    }

    async fn connect_one(
        &self,
        client: &Client,
        by: ProtocolVersion,
        number: u64,
    ) -> Result<Link, RedisError> {
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience))
            .set_response_timeout(Some(self.patience))
            .set_pipeline_buffer_size(1024);
        if by != ProtocolVersion::RESP2 {
            config = config.set_push_sender(self.ear(number));
        }
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut listener = None;
        if let Some(channel) = &self.channel {
            if by == ProtocolVersion::RESP2 {
                listener = Some(self.listen_beside(client, channel, number).await?);
            } else {
                connection.subscribe(&[channel, ALL][..]).await?;
            }
        }
        Ok(Link::One(connection, listener))
    }

    async fn connect_cluster(
        &self,
        urls: &[String],
        by: ProtocolVersion,
        number: u64,
    ) -> Result<Link, RedisError> {
        let mut builder = ClusterClientBuilder::new(urls.iter().map(String::as_str))
            .use_protocol(by)
            .connection_timeout(self.patience)
            .response_timeout(self.patience)
            .tcp_settings(tcp())
            .retries(3);
        if by != ProtocolVersion::RESP2 {
            builder = builder.push_sender(self.ear(number));
        }
        let mut connection = builder.build()?.get_async_connection().await?;
        let mut listener = None;
        if let Some(channel) = &self.channel {
            if by == ProtocolVersion::RESP2 {
                let mut failed = None;
                for url in urls {
                    let client = Self::client(url, by)?;
                    match self.listen_beside(&client, channel, number).await {
                        Ok(listening) => {
                            listener = Some(listening);
                            break;
                        }
                        Err(why) => failed = Some(why),
                    }
                }
                if let (None, Some(why)) = (&listener, failed) {
                    return Err(why);
                }
            } else {
                connection.subscribe(&[channel, ALL][..]).await?;
            }
        }
        Ok(Link::Cluster(connection, listener))
    }

    /// Hears what comes over a connection of RESP3.
    fn ear(&self, number: u64) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
        let words = self.words.clone();
        move |push| {
            let word = match (push.kind, push.data.into_iter().nth(1)) {
                (PushKind::Message, Some(Value::BulkString(said))) => Word::Said(said),
                (PushKind::Disconnection, _) => Word::Gone,
                _ => return Ok(()),
            };
            words.send((number, word)).map_err(drop)
        }
    }

    /// Hears over a second connection.
    async fn listen_beside(
        &self,
        client: &Client,
        channel: &str,
        number: u64,
    ) -> Result<Arc<Listener>, RedisError> {
        let mut listener = client.get_async_pubsub().await?;
        listener.subscribe(&[channel, ALL][..]).await?;
        let (mut voice, mut heard) = listener.split();
        let (words, patience) = (self.words.clone(), self.patience);
        let task = spawn(async move {
            // Nothing else is ever said there: without this nobody would see that it is gone.
            let silence = async {
                loop {
                    sleep(patience).await;
                    if !matches!(timeout(patience, voice.ping::<Value>()).await, Ok(Ok(_))) {
                        return;
                    }
                }
            };
            tokio::pin!(silence);
            loop {
                let message = tokio::select! {
                    message = heard.next() => message,
                    () = &mut silence => None,
                    () = words.closed() => return,
                };
                let word = message
                    .map_or(Word::Deaf, |message| Word::Said(message.get_payload_bytes().to_vec()));
                let is_gone = matches!(word, Word::Deaf);
                if words.send((number, word)).is_err() || is_gone {
                    return;
                }
            }
        });
        Ok(Arc::new(Listener(task.abort_handle())))
    }
}

/// Runs a task that owns connections. In a child of a fork it does nothing and is not dropped, even
/// if the runtime is driven or dropped there: its sockets are the parent's.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(BoundFuture::new(task, || Poll::Pending))
}

/// TLS is done by what the program has chosen; by ring, if it has chosen nothing. Without a choice
/// a program into which somebody else has brought another would panic.
#[cfg(feature = "tls")]
fn choose_provider() {
    // Somebody else may be first, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Asks the sentinels where the master is.
async fn find_master(
    sentinels: &[(String, u16)],
    master: &str,
    login: &str,
    by: ProtocolVersion,
) -> Result<Client, RedisError> {
    let addresses = sentinels.iter().map(|(host, port)| ConnectionAddr::Tcp(host.clone(), *port));
    let login = login.into_connection_info()?;
    let settings = login.redis_settings();
    let mut builder = SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)?
        .set_client_to_redis_protocol(by)
        .set_client_to_redis_db(settings.db())
        .set_client_to_redis_tcp_settings(tcp());
    if let Some(user) = settings.username() {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = settings.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if matches!(login.addr(), ConnectionAddr::TcpTls { .. }) {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    builder.build()?.async_get_client().await
}

/// Whether the server is too old for RESP3.
fn has_no_resp3(why: &RedisError) -> bool {
    let said = why.to_string();
    why.code() == Some("NOPROTO") || said.contains("HELLO") || said.contains("resp3")
}
