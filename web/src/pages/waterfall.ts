// One request as a waterfall: which stretches of time it is made of, and where
// its tokens are. It never draws.

type Ms = number

/** What the waterfall needs to know of a request. */
export interface Timed {
  points: Record<string, Ms | null | undefined>
  events: { t: Ms[]; tokens: (number | null)[]; bounded: boolean[] }
  engine: { queue_ms: number | null; prefill_ms: number | null; decode_ms: number | null } | null
}

/** The stretches, in the order of the rows. */
export type Stretch = 'retrieval' | 'wait' | 'connect' | 'upload' | 'first' | 'queue' | 'prefill' | 'tokens' | 'tail'

export interface Bar {
  stretch: Stretch
  from: Ms
  to: Ms
  /** Told by the engine in sum, not by a clock of ours: drawn hatched, and laid where it must have been. */
  told: boolean
}

export interface Tick {
  t: Ms
  /** Events and tokens that fall on this pixel; tokens is null when one of them is unknown. */
  events: number
  tokens: number | null
  bounded: boolean
}

export interface Waterfall {
  from: Ms
  to: Ms
  bars: Bar[]
  /** Instants worth a line: scheduled, sent, first token, end, those that are known. */
  instants: { name: string; t: Ms }[]
}

/** The stretches of one request. A stretch whose ends are not both known is left out. */
export function waterfall(r: Timed): Waterfall {
  const at = (name: string): Ms | null => r.points[name] ?? null
  const bars: Bar[] = []
  const bar = (stretch: Stretch, from: Ms | null, to: Ms | null, told = false) => {
    if (from !== null && to !== null && to >= from) bars.push({ stretch, from, to, told })
  }
  const start = at('start')
  const sent = at('sent')
  const first = at('first_token')
  const last = at('last_token')
  const end = at('end')
  bar('retrieval', at('retrieval_start'), at('retrieval_end'))
  // The retrieval comes before the start: what is left of the wait is the client's or a cap's.
  bar('wait', at('retrieval_end') ?? at('scheduled'), start)
  bar('connect', start, at('connected'))
  bar('upload', at('connected'), sent)
  bar('first', sent, first ?? end)
  if (r.engine !== null && sent !== null) {
    const { queue_ms: queue, prefill_ms: prefill } = r.engine
    // The engine tells how long, not when. Prefill ends where the first token
    // leaves and queueing precedes it; what is left between is the way there.
    const until = first ?? (queue !== null && prefill !== null ? sent + queue + prefill : null)
    if (until !== null) {
      const begin = prefill !== null ? Math.max(until - prefill, sent) : until
      if (queue !== null && prefill !== null) bar('queue', Math.max(begin - queue, sent), begin, true)
      else if (queue !== null) bar('queue', sent, Math.min(sent + queue, until), true)
      if (prefill !== null) bar('prefill', begin, until, true)
    }
  }
  bar('tokens', first, last)
  bar('tail', last, end)
  const known = Object.values(r.points).filter((t): t is Ms => t !== null && t !== undefined)
  for (const t of r.events.t) known.push(t)
  const from = known.reduce((a, b) => Math.min(a, b), Infinity)
  const to = known.reduce((a, b) => Math.max(a, b), -Infinity)
  const instants = ['scheduled', 'start', 'sent', 'headers', 'first_event', 'first_token', 'first_content', 'last_token', 'end']
    .map(name => ({ name, t: at(name) }))
    .filter((i): i is { name: string; t: Ms } => i.t !== null)
  return { from: known.length > 0 ? from : 0, to: known.length > 0 ? Math.max(to, from) : 0, bars, instants }
}

/** The events between from and to as at most one tick a pixel, none lost: ticks on one pixel are counted. */
export function tokenTicks(r: Timed, from: Ms, to: Ms, width: number): Tick[] {
  const out: Tick[] = []
  if (!(to > from) || width < 1) return out
  let pixel = -1
  r.events.t.forEach((t, i) => {
    if (t < from || t > to) return
    const tokens = r.events.tokens[i] ?? null
    const bounded = r.events.bounded[i] ?? false
    const p = Math.min(Math.floor((t - from) / (to - from) * width), width - 1)
    const last = out[out.length - 1]
    if (p === pixel && last !== undefined) {
      last.events++
      last.tokens = last.tokens === null || tokens === null ? null : last.tokens + tokens
      last.bounded ||= bounded
    } else {
      pixel = p
      out.push({ t, events: 1, tokens, bounded })
    }
  })
  return out
}
