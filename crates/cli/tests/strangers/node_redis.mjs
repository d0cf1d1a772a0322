// node-redis against a server on the port that is given: the commands of docs/wire.md in RESP3.
// Each reply is asserted; at the end it prints OK.
import assert from 'node:assert/strict';
import { createClient } from 'redis';

const PATIENCE = 20000;
const url = `redis://127.0.0.1:${process.argv[2]}`;
const client = createClient({ url, RESP: 3 });
const failures = [];
client.on('error', error => failures.push(error));
await client.connect();
const asker = of => (...words) => of.sendCommand(words.map(String));
const ask = asker(client);

// What the library's users ask through it.
assert.equal(await client.ping(), 'PONG');
assert.equal(await client.echo('a b'), 'a b');
await client.clientSetName('node');
const me = await client.clientInfo();
assert.equal(me.name, 'node');
assert.equal(me.libName, 'node-redis');
assert.equal(await client.clientId(), me.id);
assert.ok((await client.commandList()).includes('ls.acquire'));
assert.equal((await client.commandInfo(['ls.keep']))[0].arity, 2);

const opened = await ask('LS.OPEN', 'LEASE', 30000);
assert.equal(opened['lease-ms'], 30000);
assert.deepEqual({ ...opened.terms[0] }, { groups: '0-255', epoch: opened.epoch });
const alice = opened.session;
assert.match(alice, /^[0-9]+$/);
const rival = await ask('LS.OPEN', 'LEASE', 30000);
const bob = rival.session;
assert.ok((await ask('LS.KEEP', alice)) > 0);

// Events, as messages on the connection that gives the commands.
const waiting = [];
const heard = [];
const channel = `lockspan:${alice}`;
await client.subscribe(channel, (text, from) => {
  assert.equal(from, channel);
  const next = waiting.shift();
  if (next) next(text);
  else heard.push(text);
});
const event = () => heard.length > 0 ? heard.shift() : new Promise((resolve, reject) => {
  const late = setTimeout(() => reject(new Error('no event came')), PATIENCE);
  waiting.push(text => { clearTimeout(late); resolve(text); });
});

const record = 'node:a file';
const granted = await ask('LS.ACQUIRE', alice, record, 'W');
assert.equal(granted.status, 'granted');
const queued = await ask('LS.ACQUIRE', bob, record, 'W');
assert.equal(queued.status, 'queued');
assert.match(await event(), new RegExp(`^revoke ${granted.seq} W [0-9]+ ${record}$`));
const looked = await ask('LS.INSPECT', record);
assert.equal(looked.state, 'alone-wanted');
assert.equal(looked.holders[0].session, opened.id);
assert.equal(looked.waiters[0].session, rival.id);
assert.equal(await ask('LS.CANCEL', bob, record, queued.seq), 1);
assert.equal(await ask('LS.ACQUIRE', bob, record, 'W', 'WAIT', 50), null);
assert.equal(await ask('LS.RELEASE', alice, record, granted.seq), 1);
assert.equal(await ask('LS.RELEASE', alice, record, granted.seq), 0);
assert.equal(await client.ping('still here'), 'still here');

// A grant that was waited for is an event too; what was said before may have been sent more than
// once.
const theirs = await ask('LS.ACQUIRE', bob, record, 'W');
const mine = await ask('LS.ACQUIRE', alice, record, 'R');
assert.equal(mine.status, 'queued');
assert.equal(await ask('LS.RELEASE', bob, record, theirs.seq), 1);
let text = await event();
while (/^(revoke|keep) /.test(text)) text = await event();
assert.equal(text, `granted ${mine.seq} R ${theirs.token} - ${record}`);
await client.unsubscribe(channel);

const write = await ask('LS.CONVERT', alice, record, mine.seq, 'W');
assert.equal(write.mode, 'W');
assert.ok(write.token > theirs.token);
const read = await ask('LS.CONVERT', alice, record, write.seq, 'R');
assert.equal(read.token, write.token);
assert.equal(await ask('LS.RELEASE', alice, record, read.seq), 1);
await assert.rejects(ask('LS.CONVERT', alice, record, read.seq, 'W'), /NOTHELD/);

// WAIT blocks one connection until another releases.
const holding = await ask('LS.ACQUIRE', alice, record, 'W');
const other = createClient({ url, RESP: 3 });
await other.connect();
const waited = asker(other)('LS.ACQUIRE', bob, record, 'W', 'WAIT', PATIENCE);
const end = Date.now() + PATIENCE;
while ((await ask('LS.INSPECT', record)).waiters.length === 0) {
  assert.ok(Date.now() < end, 'the waiter is not in line');
}
assert.equal(await ask('LS.RELEASE', alice, record, holding.seq), 1);
assert.equal((await waited).status, 'granted');

// One client, one connection, for all requests of a process: each has a lock of its own.
let inside = 0;
let worst = 0;
const turn = async () => {
  const held = await ask('LS.LOCK', 'node:lock', 'W', 'ID', crypto.randomUUID());
  inside += 1;
  worst = Math.max(worst, inside);
  await new Promise(resolve => setTimeout(resolve, 2));
  inside -= 1;
  return ask('LS.UNLOCK', 'node:lock', held.handle);
};
assert.deepEqual(await Promise.all([turn(), turn(), turn(), turn()]), [1, 1, 1, 1]);
assert.equal(worst, 1);
const tried = await ask('LS.LOCK', 'node:lock', 'W', 'LEASE', 5000);
assert.equal(tried['lease-ms'], 5000);
assert.equal(await ask('LS.LOCK', 'node:lock', 'R', 'WAIT', 0), null);
assert.equal(await asker(other)('LS.RENEW', 'node:lock', tried.handle), 5000);
assert.equal(await ask('LS.UNLOCK', 'node:lock', tried.handle), 1);

await assert.rejects(
  ask('LS.REASSERT', alice, record, opened.epoch, 2000, 'R', 'WAITING'), /REFUSED/);
const slots = await ask('LS.SLOTS');
assert.equal(slots.reduce((sum, part) => sum + part.last - part.first + 1, 0), 16384);
const [cursor, locks] = await ask('LS.LOCKS', 0, 'MATCH', 'node:*');
assert.deepEqual([cursor, locks.map(lock => lock.record)], ['0', [record]]);
await assert.rejects(ask('LS.KEEP', 1), /NOSESSION/);
await assert.rejects(ask('GET', record), /unknown command/);
for (const session of [alice, bob]) assert.equal(await ask('LS.CLOSE', session), 'OK');
assert.deepEqual(await ask('LS.SESSIONS'), []);
await Promise.all([client.close(), other.close()]);
assert.deepEqual(failures, []);
console.log('OK');
