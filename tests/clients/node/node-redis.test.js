// node-redis as programs use it, with RESP2 and RESP3. ESKER_PORT is the server's port.

import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { createClient, WatchError } from 'redis'

const url = `redis://127.0.0.1:${process.env.ESKER_PORT}/5`

for (const RESP of [2, 3]) {
  describe(`RESP${RESP}`, () => {
    const r = createClient({ url, RESP })
    before(() => r.connect())
    beforeEach(() => r.flushDb())
    after(() => r.close())

    test('values and hashes', async () => {
      assert.equal(await r.set('k', 'v', { expiration: { type: 'EX', value: 100 } }), 'OK')
      assert.ok((await r.ttl('k')) > 0)
      assert.equal(await r.hSet('user:1', { name: 'Ann', age: '30' }), 2)
      assert.deepEqual({ ...(await r.hGetAll('user:1')) }, { name: 'Ann', age: '30' })
      assert.deepEqual(await r.mGet(['k', 'missing']), ['v', null])
    })

    test('sorted sets have numbers', async () => {
      await r.zAdd('z', [{ score: 1.5, value: 'a' }, { score: Infinity, value: 'b' }])
      const members = (await r.zRangeWithScores('z', 0, -1)).map((member) => ({ ...member }))
      assert.deepEqual(members, [{ value: 'a', score: 1.5 }, { value: 'b', score: Infinity }])
      assert.equal(await r.zScore('z', 'missing'), null)
    })

    test('transactions', async () => {
      assert.deepEqual(await r.multi().set('k', '1').incr('k').get('k').exec(), ['OK', 2, '2'])
      const own = r.duplicate()
      await own.connect()
      await own.watch('k')
      await r.set('k', 'other')
      await assert.rejects(own.multi().set('k', 'mine').exec(), WatchError)
      own.destroy()
    })

    test('messages', async () => {
      const listener = r.duplicate()
      await listener.connect()
      const message = new Promise((resolve) => {
        listener.subscribe('news', (text, channel) => resolve([channel, text]))
      })
      while ((await r.publish('news', 'hello')) === 0);
      assert.deepEqual(await message, ['news', 'hello'])
      listener.destroy()
    })

    test('a blocking pop', async () => {
      const waiter = r.duplicate()
      await waiter.connect()
      const popped = waiter.blPop('list', 20)
      await r.rPush('list', 'x')
      assert.deepEqual({ ...(await popped) }, { key: 'list', element: 'x' })
      waiter.destroy()
    })

    test('iterators', async () => {
      const names = Array.from({ length: 1000 }, (_, at) => `k${String(at).padStart(4, '0')}`)
      await r.mSet(Object.fromEntries(names.map((name) => [name, name])))
      const found = []
      for await (const keys of r.scanIterator({ MATCH: 'k*', COUNT: 100 })) found.push(...keys)
      assert.deepEqual(found.sort(), names)
      await r.sAdd('set', names)
      const members = []
      for await (const some of r.sScanIterator('set')) members.push(...some)
      assert.deepEqual(members.sort(), names)
    })

    test('errors', async () => {
      await r.rPush('list', 'x')
      await assert.rejects(r.get('list'), /^.*WRONGTYPE /)
      await assert.rejects(r.sendCommand(['NOSUCH']), /unknown command 'NOSUCH'/)
    })
  })
}
