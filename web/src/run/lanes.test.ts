import { expect, test } from 'vitest'
import type { Series } from '../api'
import { addends, arrange, choiceText, deviceName, deviceNames, lanesOf, mostDevices, namesOf, parseChoice, shortNames } from './lanes'

let id = 0
const s = (signal: string, stat: string, more: Partial<Series> = {}): Series => ({ id: id++, signal, stat, source: '', labels: '', workload: '', unit: 'requests', kind: 'gauge', title: signal, ...more })
const lane = (list: Series[], key: string, workloads: string[] = []) => lanesOf(list, [], workloads).find((l) => l.key === key)

test('in flight is a stack of workloads in their order, and one area without them', () => {
  const a = s('client.requests_in_flight', 'value', { workload: 'b' })
  const b = s('client.requests_in_flight', 'value', { workload: 'a' })
  const all = s('client.requests_in_flight', 'value')
  const l = lane([a, b, all], 'inflight', ['a', 'b'])
  expect(l?.kind).toBe('stack')
  expect(l?.parts.map((p) => [p.id, p.look])).toEqual([[b.id, 'w0'], [a.id, 'w1']])
  expect(lane([all], 'inflight')).toMatchObject({ kind: 'lines', parts: [{ id: all.id }] })
})

test('arrivals are a stack of workloads under what was asked', () => {
  const asked = s('client.requests_scheduled', 'rate')
  const l = lane([s('client.requests_sent', 'rate', { workload: 'a' }), s('client.requests_sent', 'rate', { workload: 'b' }), s('client.requests_sent', 'rate'), asked], 'arrivals', ['b', 'a'])
  expect(l).toMatchObject({ kind: 'stack', unit: 'requests', rate: true })
  expect(l?.parts.map((p) => p.look)).toEqual(['w0', 'w1', 'asked'])
  expect(l && addends(l).map((p) => p.name)).toEqual(['b', 'a'])
  // One workload is all of them.
  expect(lane([s('client.requests_sent', 'rate'), asked], 'arrivals')).toMatchObject({ kind: 'lines', parts: [{ look: 'first' }, { look: 'asked' }] })
})

test('of several sources the sum is drawn, of one its own', () => {
  const sum = s('requests_running', 'value')
  const one = s('requests_running', 'value', { source: 'a' })
  expect(lane([one, sum], 'queue')?.parts[0]?.id).toBe(sum.id)
  expect(lane([one], 'queue')?.parts[0]?.id).toBe(one.id)
})

test.each([[1, 'lines'], [mostDevices, 'lines'], [mostDevices + 1, 'envelope']])('%d devices are %s', (n, kind) => {
  const list = Array.from({ length: n }, (_, g) => s('sm_active', 'value', { source: 'd', labels: `gpu=${g}`, unit: '1', kind: 'share' }))
  const l = lane([...list, s('sm_active', 'value', { unit: '1' })], 'sm')
  expect(l?.kind).toBe(kind)
  expect(kind === 'lines' ? l?.parts.length : l?.members).toBe(n)
})

test('the same devices with and without a source count once', () => {
  const list = [s('power', 'value', { labels: 'gpu=0' }), s('power', 'value', { labels: 'gpu=0', source: 'd' })]
  expect(lane(list, 'power')?.parts.length).toBe(1)
})

test('a lane without data says why, by its signal before its group', () => {
  const missing = [{ group: 'accelerator' as const, signal: '', why: 'no exporter', fix: 'x' }, { group: 'accelerator' as const, signal: 'sm_active', why: 'fields off', fix: 'y' }]
  const lanes = lanesOf([], missing, [])
  expect(lanes.find((l) => l.key === 'sm')?.missing).toEqual({ why: 'fields off', fix: 'y' })
  expect(lanes.find((l) => l.key === 'power')?.missing).toEqual({ why: 'no exporter', fix: 'x' })
  expect(lanes.find((l) => l.key === 'users')?.missing).toEqual({ why: '', fix: '' })
  expect(lanes.some((l) => l.key === 'rdma')).toBe(false)
})

test('a signal that no plan names has a lane that is not shown at first', () => {
  const l = lane([s('engine_steps', 'rate', { kind: 'rate' })], 's.engine_steps')
  expect(l).toMatchObject({ group: 'engine', shown: false, rate: true })
  expect(lanesOf([s('client.ttft', 'p95')], [], []).some((x) => x.key.startsWith('s.'))).toBe(false)
})

test.each([
  [['gpu=3,uuid=GPU-1'], ['gpu 3']],
  [['gpu=0,host=a,uuid=x', 'gpu=1,host=a,uuid=y'], ['gpu 0', 'gpu 1']],
  [['gpu=0,host=a', 'gpu=0,host=b'], ['a', 'b']],
  [['uuid=x', 'uuid=y'], ['x', 'y']],
  [['engine=0'], ['engine 0']],
])('devices %j', (labels, want) => expect(deviceNames(labels.map((l) => ({ source: 's', labels: l })))).toEqual(want))
test('devices of several sources have their source', () => {
  expect(deviceNames([{ source: 'h1', labels: 'gpu=3' }, { source: 'h2', labels: 'gpu=3' }])).toEqual(['h1', 'h2'])
  expect(deviceName({ source: 'h1', labels: 'gpu=3,host=a,uuid=x' })).toBe('gpu 3 a')
  expect(deviceName({ source: 'h1', labels: '' })).toBe('h1')
})

test('a choice goes into an address and back', () => {
  const c = { keys: ['ttft', 'kv'], heat: ['ttft'] }
  expect(choiceText(c)).toBe('ttft~h,kv')
  expect(parseChoice('ttft~h,kv')).toEqual(c)
  expect(parseChoice('kv,kv,,~h')).toEqual({ keys: ['kv'], heat: [] })
  expect(parseChoice('')).toBeNull()
  expect(parseChoice(null)).toBeNull()
})

test('lanes stay with their group, in the order of the choice within it; unknown ones are left out', () => {
  const lanes = lanesOf([], [], [])
  expect(arrange(lanes, { keys: ['kv', 'tpot', 'ttft', 'nonsense', 'users'], heat: [] }).map((l) => l.key)).toEqual(['users', 'tpot', 'ttft', 'kv'])
})

test('names are short where they stay different', () => {
  expect(shortNames(['legal/review', 'chat', 'a/x', 'b/x'])).toEqual(['review', 'chat', 'a/x', 'b/x'])
})

test('a signal is called as its lane calls it', () => {
  expect(namesOf('kv_cache_usage')).toEqual({ lane: 'kv', part: null })
  expect(namesOf('requests_waiting')).toEqual({ lane: 'queue', part: 'waiting' })
  expect(namesOf('of_an_engine_nobody_knows')).toBeNull()
})
