// Which lanes a run has: the catalogue of lanes, held against the series that the run has. A
// lane for which there is nothing says why. Nothing here draws or reads.

import type { Missing, Series } from '../api'
import type { Said } from '../i18n/told'
import type { Word } from './words'

export type Group = 'load' | 'feel' | 'engine' | 'accelerator' | 'network' | 'client'
export const groups: readonly Group[] = ['load', 'feel', 'engine', 'accelerator', 'network', 'client']

/** How a part is drawn: the first line of a lane, further ones, what was asked, a failure, or one of up to eight. */
export type Look = 'first' | 'second' | 'third' | 'asked' | 'fail' | `w${number}`

/** One line or area of a lane. */
export interface Part { id: number; look: Look; name: string; /** of the catalogue of words */ word?: Word }

export interface Lane {
  key: string
  group: Group
  /** A word, or for a signal that the catalogue does not know the series' own title. */
  word: Word | null
  title: string
  unit: string
  rate: boolean
  kind: 'lines' | 'stack' | 'bands' | 'envelope'
  parts: Part[]
  /** Of kind bands: the latency. */
  figure?: string
  /** Of kind envelope. */
  signal?: string
  stat?: string
  members?: number
  /** The parts are the same thing of several devices: their mean is the lane's value. */
  devices?: boolean
  log?: boolean
  shown: boolean
  /** Why there is nothing to draw; then there are no parts. */
  missing?: { why: string; fix: string; said?: Said | undefined; fix_said?: Said | undefined } | undefined
}

interface PartPlan { signal: string; stats: readonly string[]; look: Look; word?: Word }
interface Plan {
  key: string; group: Group; word: Word
  /** split: the first part by workload, where there are several of them, and the others as lines over it. */
  kind?: 'lines' | 'stack' | 'split' | 'bands' | 'devices'
  parts: readonly PartPlan[]; figure?: string; log?: boolean; hidden?: boolean
  /** Only where there is something: its lack is nothing that a reader misses. */
  optional?: boolean
  /** Of which group of missing signals it may be. */
  from?: Missing['group']
}

const value = ['value', 'mean', 'max'] as const
const rate = ['rate', 'value'] as const
const late = ['p99', 'max', 'p95', 'mean', 'value'] as const
const mean = ['mean', 'p50', 'value'] as const

const plans: readonly Plan[] = [
  { key: 'users', group: 'load', word: 'users', kind: 'split', parts: [{ signal: 'client.users', stats: value, look: 'first', word: 'usersPart' }, { signal: 'client.sessions_in_flight', stats: value, look: 'second', word: 'sessions' }] },
  { key: 'inflight', group: 'load', word: 'inFlight', kind: 'split', parts: [{ signal: 'client.requests_in_flight', stats: value, look: 'first' }] },
  { key: 'arrivals', group: 'load', word: 'arrivals', kind: 'split', parts: [{ signal: 'client.requests_sent', stats: rate, look: 'first', word: 'sent' }, { signal: 'client.requests_scheduled', stats: rate, look: 'asked', word: 'asked' }] },
  { key: 'states', group: 'load', word: 'states', kind: 'stack', hidden: true, optional: true, parts: [{ signal: 'client.waiting_first_token', stats: value, look: 'w0', word: 'waitingFirst' }, { signal: 'client.decoding', stats: value, look: 'w1', word: 'decoding' }] },

  { key: 'ttft', group: 'feel', word: 'ttft', kind: 'bands', figure: 'ttft', parts: [] },
  { key: 'tpot', group: 'feel', word: 'tpot', kind: 'bands', figure: 'tpot', parts: [] },
  { key: 'itl', group: 'feel', word: 'itl', kind: 'bands', figure: 'itl', parts: [] },
  { key: 'e2e', group: 'feel', word: 'e2e', kind: 'bands', figure: 'e2e', parts: [] },
  { key: 'output', group: 'feel', word: 'output', parts: [{ signal: 'client.output_tokens', stats: rate, look: 'first' }] },
  { key: 'prompt', group: 'feel', word: 'prompt', hidden: true, parts: [{ signal: 'client.prompt_tokens', stats: rate, look: 'first' }] },
  { key: 'good', group: 'feel', word: 'completed', parts: [{ signal: 'client.requests_ok', stats: rate, look: 'first' }] },
  { key: 'errors', group: 'feel', word: 'errors', parts: [{ signal: 'client.requests_failed', stats: rate, look: 'fail', word: 'failed' }, { signal: 'client.requests_cancelled', stats: rate, look: 'second', word: 'cancelled' }] },

  { key: 'queue', group: 'engine', word: 'queue', from: 'engine', parts: [{ signal: 'requests_running', stats: value, look: 'first', word: 'running' }, { signal: 'requests_waiting', stats: value, look: 'second', word: 'waiting' }] },
  { key: 'kv', group: 'engine', word: 'kv', from: 'engine', parts: [{ signal: 'kv_cache_usage', stats: value, look: 'first' }] },
  { key: 'prefix', group: 'engine', word: 'prefix', from: 'engine', parts: [{ signal: 'prefix_cache_hit_ratio', stats: value, look: 'first' }] },
  { key: 'preempt', group: 'engine', word: 'preempt', from: 'engine', parts: [{ signal: 'preemptions', stats: rate, look: 'first' }] },
  { key: 'times', group: 'engine', word: 'times', from: 'engine', log: true, parts: [{ signal: 'queue_time', stats: mean, look: 'first', word: 'queueTime' }, { signal: 'prefill_time', stats: mean, look: 'second', word: 'prefillTime' }, { signal: 'decode_time', stats: mean, look: 'third', word: 'decodeTime' }] },
  { key: 'generated', group: 'engine', word: 'generated', from: 'engine', hidden: true, optional: true, parts: [{ signal: 'generation_tokens', stats: rate, look: 'first' }] },
  { key: 'batch', group: 'engine', word: 'batch', from: 'engine', hidden: true, optional: true, parts: [{ signal: 'batch_size', stats: mean, look: 'first' }] },
  { key: 'spec', group: 'engine', word: 'spec', from: 'engine', optional: true, parts: [{ signal: 'spec_acceptance', stats: value, look: 'first' }] },
  { key: 'gateway', group: 'engine', word: 'gateway', from: 'engine', optional: true, parts: [{ signal: 'gateway.requests_in_flight', stats: value, look: 'first', word: 'inFlight' }, { signal: 'gateway.requests_waiting', stats: value, look: 'second', word: 'waiting' }] },

  { key: 'sm', group: 'accelerator', word: 'sm', from: 'accelerator', kind: 'devices', parts: [{ signal: 'sm_active', stats: value, look: 'first' }] },
  { key: 'tensor', group: 'accelerator', word: 'tensor', from: 'accelerator', kind: 'devices', parts: [{ signal: 'tensor_active', stats: value, look: 'first' }] },
  { key: 'dram', group: 'accelerator', word: 'dram', from: 'accelerator', kind: 'devices', parts: [{ signal: 'dram_active', stats: value, look: 'first' }] },
  { key: 'gpuutil', group: 'accelerator', word: 'gpuUtil', from: 'accelerator', kind: 'devices', optional: true, parts: [{ signal: 'gpu_util', stats: value, look: 'first' }] },
  { key: 'gpumem', group: 'accelerator', word: 'gpuMem', from: 'accelerator', kind: 'devices', parts: [{ signal: 'fb_used', stats: value, look: 'first' }] },
  { key: 'power', group: 'accelerator', word: 'power', from: 'accelerator', kind: 'devices', parts: [{ signal: 'power', stats: value, look: 'first' }] },
  { key: 'clock', group: 'accelerator', word: 'clock', from: 'accelerator', kind: 'devices', hidden: true, optional: true, parts: [{ signal: 'sm_clock', stats: value, look: 'first' }] },
  { key: 'temp', group: 'accelerator', word: 'temp', from: 'accelerator', kind: 'devices', hidden: true, optional: true, parts: [{ signal: 'gpu_temp', stats: value, look: 'first' }] },
  { key: 'throttled', group: 'accelerator', word: 'throttled', from: 'accelerator', kind: 'devices', optional: true, parts: [{ signal: 'throttled', stats: value, look: 'first' }] },

  { key: 'net', group: 'network', word: 'net', from: 'network', parts: [{ signal: 'net_tx', stats: rate, look: 'first', word: 'sent' }, { signal: 'net_rx', stats: rate, look: 'second', word: 'received' }] },
  { key: 'nvlink', group: 'network', word: 'nvlink', from: 'network', optional: true, parts: [{ signal: 'nvlink_tx', stats: value, look: 'first', word: 'sent' }, { signal: 'nvlink_rx', stats: value, look: 'second', word: 'received' }] },
  { key: 'nvlinkb', group: 'network', word: 'nvlink', from: 'network', optional: true, parts: [{ signal: 'nvlink_tx_bytes', stats: rate, look: 'first', word: 'sent' }, { signal: 'nvlink_rx_bytes', stats: rate, look: 'second', word: 'received' }] },
  { key: 'pcie', group: 'network', word: 'pcie', from: 'network', optional: true, parts: [{ signal: 'pcie_tx', stats: value, look: 'first', word: 'sent' }, { signal: 'pcie_rx', stats: value, look: 'second', word: 'received' }] },
  { key: 'rdma', group: 'network', word: 'rdma', from: 'network', optional: true, parts: [{ signal: 'rdma_tx', stats: rate, look: 'first', word: 'sent' }, { signal: 'rdma_rx', stats: rate, look: 'second', word: 'received' }] },
  { key: 'retransmits', group: 'network', word: 'retransmits', from: 'network', optional: true, parts: [{ signal: 'tcp_retransmits', stats: rate, look: 'first' }] },

  { key: 'lag', group: 'client', word: 'lag', parts: [{ signal: 'client.send_lag', stats: late, look: 'first', word: 'sendLag' }, { signal: 'client.read_lag', stats: late, look: 'second', word: 'readLag' }, { signal: 'client.canary_lag', stats: late, look: 'third', word: 'canaryLag' }] },
  { key: 'cpu', group: 'client', word: 'cpu', parts: [{ signal: 'client.cpu', stats: value, look: 'first' }] },
]

/** What a signal is called where a lane shows it: the lane's word, and the part's where it has several; null where no plan names it. */
export function namesOf(signal: string): { lane: Word; part: Word | null } | null {
  for (const p of plans) {
    const q = p.parts.find((x) => x.signal === signal)
    if (q) return { lane: p.word, part: p.parts.length > 1 ? (q.word ?? null) : null }
  }
  return null
}

/** At most so many lines of devices; above, an envelope. */
export const mostDevices = 8

const isShare = (unit: string) => unit === '1' || unit === 'share'
const perSecond = (s: Series) => s.kind === 'rate' || s.stat === 'rate'

/** Where a signal belongs that no plan names. */
function groupOf(signal: string): Group {
  if (signal.startsWith('client.')) return 'client'
  if (/^(sm_|gr_|tensor|dram|fb_|gpu|power|energy|mem_|throttled|xid)/.test(signal)) return 'accelerator'
  if (/^(net_|nvlink|pcie|rdma|tcp_)/.test(signal)) return 'network'
  if (/^host_/.test(signal)) return 'client'
  return 'engine'
}

/** The lanes of a run in their order; those with nothing to draw have missing set. */
export function lanesOf(series: Series[], missing: Missing[], workloads: string[]): Lane[] {
  const bySignal = new Map<string, Series[]>()
  for (const s of series) {
    const list = bySignal.get(s.signal)
    if (list) list.push(s)
    else bySignal.set(s.signal, [s])
  }
  const used = new Set<string>()
  const lanes: Lane[] = []
  for (const p of plans) {
    for (const q of p.parts) used.add(q.signal)
    const lane: Lane = { key: p.key, group: p.group, word: p.word, title: '', unit: '', rate: false, kind: 'lines', parts: [], shown: !p.hidden }
    if (p.log) lane.log = true
    if (p.kind === 'bands') {
      lane.kind = 'bands'
      lane.figure = p.figure as string
      lane.unit = 'ms'
      lanes.push(lane)
      continue
    }
    if (p.kind === 'devices') devices(lane, p, bySignal)
    else if (p.kind === 'split') split(lane, p, bySignal, workloads)
    else lines(lane, p.parts, bySignal)
    if (p.kind === 'stack' && lane.parts.length > 1) lane.kind = 'stack'
    if (lane.parts.length === 0 && lane.kind !== 'envelope') {
      if (p.optional) continue
      const why = missing.find((m) => p.parts.some((q) => q.signal === m.signal)) ?? missing.find((m) => m.group === p.from && (m.signal === '' || m.signal === '*'))
      lane.missing = { why: why?.why ?? '', fix: why?.fix ?? '', said: why?.said, fix_said: why?.fix_said }
    }
    lanes.push(lane)
  }
  return lanes.concat(rest(bySignal, used))
}

/** The series of all sources together; where there is one source only, that. */
function whole(list: Series[] | undefined, stats: readonly string[]): Series | undefined {
  if (!list) return undefined
  for (const stat of stats) {
    const of = list.filter((s) => s.stat === stat && !s.workload)
    const all = of.find((s) => !s.source && !s.labels) ?? of.find((s) => !s.labels)
    if (all) return all
    if (of.length === 1) return of[0]
  }
  return undefined
}

function takeUnit(lane: Lane, s: Series) {
  lane.unit = isShare(s.unit) ? '1' : s.unit
  lane.rate = perSecond(s)
}

function lines(lane: Lane, parts: readonly PartPlan[], bySignal: Map<string, Series[]>) {
  for (const q of parts) {
    const s = whole(bySignal.get(q.signal), q.stats)
    if (!s) continue
    if (lane.parts.length === 0) takeUnit(lane, s)
    lane.parts.push({ id: s.id, look: q.look, name: s.title, ...(q.word && { word: q.word }) })
  }
}

function split(lane: Lane, p: Plan, bySignal: Map<string, Series[]>, workloads: string[]) {
  const [first, ...over] = p.parts as [PartPlan, ...PartPlan[]]
  const of = (bySignal.get(first.signal) ?? []).filter((s) => s.workload && !s.source && !s.labels && s.stat === first.stats[0])
  if (of.length < 2) return lines(lane, p.parts, bySignal)
  lane.kind = 'stack'
  const at = (w: string) => { const i = workloads.indexOf(w); return i < 0 ? workloads.length : i }
  of.sort((a, b) => at(a.workload) - at(b.workload))
  takeUnit(lane, of[0] as Series)
  const names = shortNames(of.map((s) => s.workload))
  lane.parts = of.map((s, i) => ({ id: s.id, look: `w${at(s.workload) % 8}`, name: names[i] as string }))
  lines(lane, over, bySignal)
}

/** The parts of a lane that add up to its value. */
export const addends = (lane: Lane) => (lane.kind === 'stack' ? lane.parts.filter((p) => p.look.startsWith('w')) : lane.parts)

function devices(lane: Lane, p: Plan, bySignal: Map<string, Series[]>) {
  const q = p.parts[0] as PartPlan
  const all = bySignal.get(q.signal) ?? []
  for (const stat of q.stats) {
    const of = all.filter((s) => s.stat === stat && s.labels)
    const sources = new Set(of.map((s) => s.source))
    // A device is told by its labels; the same device without a source is the same again.
    const members = of.filter((s) => s.source || !sources.has('') || sources.size === 1)
    if (members.length > mostDevices) {
      takeUnit(lane, members[0] as Series)
      Object.assign(lane, { kind: 'envelope', signal: q.signal, stat, members: members.length })
      return
    }
    if (members.length > 0) {
      takeUnit(lane, members[0] as Series)
      lane.devices = members.length > 1
      const names = deviceNames(members)
      lane.parts = members.map((s, i) => ({ id: s.id, look: `w${i}`, name: names[i] as string }))
      return
    }
  }
  lines(lane, p.parts, bySignal)
}

type Labelled = { source: string; labels: string }

const pairsOf = (d: Labelled): [string, string][] => [['source', d.source], ...d.labels.split(',').filter(Boolean).map((l): [string, string] => {
  const cut = l.indexOf('=')
  return cut < 0 ? [l, ''] : [l.slice(0, cut), l.slice(cut + 1)]
})]

/** A number needs to be told of what; a name does not. */
const told = ([k, v]: [string, string]) => (v === '' ? k : /^\d+$/.test(v) ? `${k} ${v}` : v)

/**
 * Names for devices that tell them apart and no more: gpu=3,host=a,uuid=GPU-1b is "gpu 3" where
 * all are of one host. An identifier nobody can read is used only where nothing else tells.
 */
export function deviceNames(list: Labelled[]): string[] {
  const all = list.map(pairsOf)
  const differs = (key: string) => new Set(all.map((p) => p.find(([k]) => k === key)?.[1] ?? '')).size > 1
  const keys = [...new Set(all.flatMap((p) => p.map(([k]) => k)))]
  const readable = keys.filter((k) => k !== 'uuid' && k !== 'model')
  const use = readable.filter((k) => differs(k) || (list.length === 1 && k !== 'source'))
  const chosen = use.length ? use : keys.filter((k) => k !== 'source')
  return all.map((p) => p.filter(([k, v]) => chosen.includes(k) && (k !== 'source' || v !== '')).map(told).join(' '))
}

/** One device by its labels, without what nobody can read. */
export const deviceName = (d: Labelled) => pairsOf(d).filter(([k]) => k !== 'uuid' && k !== 'source').map(told).join(' ') || d.source

/** Names of workloads without their family, where that leaves them different. */
export function shortNames(names: string[]): string[] {
  const short = names.map((n) => n.slice(n.lastIndexOf('/') + 1))
  return names.map((n, i) => (short.filter((s) => s === short[i]).length > 1 ? n : (short[i] as string)))
}

/** One lane, hidden at first, for every signal that no plan names. */
function rest(bySignal: Map<string, Series[]>, used: Set<string>): Lane[] {
  const lanes: Lane[] = []
  for (const [signal, list] of bySignal) {
    if (used.has(signal) || /^client\.(ttft|tpot|itl|e2e)$/.test(signal)) continue
    const s = whole(list, ['value', 'rate', 'mean', 'p99', 'max'])
    if (!s) continue
    lanes.push({
      key: 's.' + signal, group: groupOf(signal), word: null, title: s.title || signal, unit: isShare(s.unit) ? '1' : s.unit, rate: perSecond(s), kind: 'lines',
      parts: [{ id: s.id, look: 'first', name: s.title || signal }], shown: false,
    })
  }
  return lanes.sort((a, b) => (a.key < b.key ? -1 : 1))
}

/** What a reader chose: which lanes, in which order, which as a heat map; null is the usual. */
export interface Choice { keys: string[]; heat: string[] }

/** A choice as it stands in an address: "ttft~h,kv,queue". */
export const choiceText = (c: Choice) => c.keys.map((k) => (c.heat.includes(k) ? k + '~h' : k)).join(',')

export function parseChoice(text: string | null): Choice | null {
  if (!text) return null
  const c: Choice = { keys: [], heat: [] }
  for (const part of text.split(',').slice(0, 200)) {
    const heat = part.endsWith('~h')
    const key = heat ? part.slice(0, -2) : part
    if (!key || c.keys.includes(key)) continue
    c.keys.push(key)
    if (heat) c.heat.push(key)
  }
  return c.keys.length ? c : null
}

/** The lanes that a choice shows, group by group, in its order within each group. */
export function arrange(lanes: Lane[], choice: Choice | null): Lane[] {
  const shown = choice ? choice.keys.flatMap((k) => lanes.find((l) => l.key === k) ?? []) : lanes.filter((l) => l.shown)
  return groups.flatMap((g) => shown.filter((l) => l.group === g))
}
