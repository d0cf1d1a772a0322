// The example of docs/wire.md is put below, as it is but for the port.
import assert from 'node:assert/strict';
import { createClient } from 'redis';

/* the example */

const answer = (client, ...words) => client.sendCommand(words.map(String));
const other = createClient({ url: `redis://127.0.0.1:${process.argv[2]}`, RESP: 3 });
await other.connect();
const rival = await answer(other, 'LS.OPEN', 'LEASE', 10000);
const mine = await answer(locks, 'LS.ACQUIRE', session, 'doc:my file', 'W');
assert.equal(mine.status, 'granted');
// The example hears of it, and releases.
const theirs = await answer(
  other, 'LS.ACQUIRE', rival.session, 'doc:my file', 'W', 'WAIT', 20000);
assert.equal(theirs?.status, 'granted');
assert.ok(theirs.token > mine.token);
await Promise.all([other, locks, events].map(client => client.close()));
console.log('OK');
