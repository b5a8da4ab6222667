// ioredis as programs use it. ESKER_PORT is the server's port.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, beforeEach, test } from 'node:test'
import { Redis } from 'ioredis'

const port = Number(process.env.ESKER_PORT)
const r = new Redis({ port, db: 4 })
beforeEach(() => r.flushdb())
after(() => r.quit())

const until = async (condition) => {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 1))
}

test('it is ready after its check of INFO', async () => {
  const other = new Redis({ port, lazyConnect: true, connectionName: 'checked' })
  await other.connect()
  assert.equal(other.status, 'ready')
  assert.equal(await other.client('GETNAME'), 'checked')
  await other.quit()
})

test('values, hashes and binary', async () => {
  assert.equal(await r.set('k', 'v', 'EX', 100, 'NX'), 'OK')
  assert.equal(await r.set('k', 'w', 'NX'), null)
  const bytes = Buffer.from([...Array(256).keys()])
  await r.set(bytes, bytes)
  assert.deepEqual(await r.getBuffer(bytes), bytes)
  await r.hset('user:1', { name: 'Ann', age: 30 })
  assert.deepEqual(await r.hgetall('user:1'), { name: 'Ann', age: '30' })
  assert.deepEqual(await r.hgetall('missing'), {})
  assert.deepEqual(await r.mget('k', 'missing'), ['v', null])
})

test('a pipeline and a transaction', async () => {
  const replies = await r.pipeline().set('k', '1').incr('k').get('k').lpush('k', 'x').exec()
  assert.deepEqual(replies.slice(0, 3), [[null, 'OK'], [null, 2], [null, '2']])
  assert.match(replies[3][0].message, /^WRONGTYPE /)
  assert.deepEqual(await r.multi().zadd('z', 1, 'a', 2, 'b').zrange('z', 0, -1).exec(), [[null, 2], [null, ['a', 'b']]])
})

test('WATCH makes EXEC return null', async () => {
  const other = r.duplicate()
  await r.watch('k')
  await other.set('k', 'other')
  assert.equal(await r.multi().set('k', 'mine').exec(), null)
  assert.equal(await r.get('k'), 'other')
  await other.quit()
})

test('commands that are sent at once share a pipeline', async () => {
  const batched = new Redis({ port, db: 4, enableAutoPipelining: true })
  const counts = await Promise.all(Array.from({ length: 1000 }, () => batched.incr('count')))
  assert.deepEqual(counts, Array.from({ length: 1000 }, (_, at) => at + 1))
  await batched.quit()
})

test('messages', async () => {
  const listener = r.duplicate()
  assert.equal(await listener.subscribe('news', 'other'), 2)
  await listener.psubscribe('n*')
  const message = once(listener, 'message')
  const pattern = once(listener, 'pmessage')
  assert.equal(await r.publish('news', 'hello'), 2)
  assert.deepEqual(await message, ['news', 'hello'])
  assert.deepEqual(await pattern, ['n*', 'news', 'hello'])
  // Its unsubscribe() without names waits for ever with RESP3, with Redis too.
  assert.equal(await listener.unsubscribe('news'), 2)
  await listener.quit()
})

test('a blocking pop on a connection of its own', async () => {
  const waiter = r.duplicate()
  const popped = waiter.blpop('list', 20)
  await until(async () => /blocked_clients:1\r/.test(await r.info('clients')))
  await r.rpush('list', 'x')
  assert.deepEqual(await popped, ['list', 'x'])
  assert.equal(await waiter.brpop('list', 0.01), null)
  await waiter.quit()
})

test('a stream of SCAN', async () => {
  const names = Array.from({ length: 2000 }, (_, at) => `k${String(at).padStart(4, '0')}`)
  await r.mset(Object.fromEntries(names.map((name) => [name, name])))
  const found = []
  for await (const keys of r.scanStream({ match: 'k*', count: 100 })) found.push(...keys)
  assert.deepEqual(found.sort(), names)
})

test('it connects again when its connection is killed', async () => {
  const victim = r.duplicate()
  const id = await victim.client('ID')
  await r.client('KILL', 'ID', id)
  await until(async () => (await victim.client('ID').catch(() => id)) !== id)
  assert.equal(await victim.set('k', 'v'), 'OK')
  await victim.quit()
})
