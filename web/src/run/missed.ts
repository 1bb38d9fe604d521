// Which limits are missed, by how much and of whose requests, in words: the run's own and those
// that came with single workloads alike. What was not measured is neither met nor missed.

import type { Figures, Judged, RunDoc, Snapshot } from '../api'
import { brief, digits, duration } from '../format'
import { t } from './words'

type N = number | null

/** Every limit as it stands: in a live run over the last seconds, else over the range of figures. */
export function standing(doc: Pick<RunDoc, 'slo'>, live: Snapshot['header'] | null, figures: Pick<Figures, 'slo' | 'workloads'> | null): Judged[] {
  if (live) return doc.slo.map((s, i) => ({ ...s, value: live.limits?.[i]?.value ?? null, met: live.limits?.[i]?.met ?? null }))
  if (!figures) return []
  const decided = new Set(figures.slo.map((l) => l.workload))
  const own = Object.entries(figures.workloads).flatMap(([workload, w]) =>
    w.slo?.own && !decided.has(workload) ? w.slo.limits.map((l) => ({ ...l, workload, aside: true })) : [])
  return [...figures.slo, ...own]
}

/**
 * What the run's own limit on p95 of a figure is held against, null where it has none or nothing was
 * measured. While a run goes on that is of the steady requests that ended, and not of all whose
 * figure is known: the number in the head is this one, so that it and how far it is over agree.
 */
export function held(limits: Judged[], figure: string): N {
  return limits.find((l) => l.metric === figure && l.stat === 'p95' && l.met !== null && !l.workload && !l.turn && !l.with_retrieval)?.value ?? null
}

/** How far a value is over a limit, in words; empty when it is not. */
export function beyond(value: N, limit: number, text: (v: number) => string): string {
  if (value === null || !(value > limit)) return ''
  if (limit > 0 && value >= 2 * limit) return t('manifold', { by: brief({ text: digits(Number((value / limit).toPrecision(2))), unit: '' }), limit: text(limit) })
  const share = limit === 0 ? 0 : Math.abs(value / limit - 1) * 100
  const by = limit === 0 ? text(value) : (share < 10 ? digits(Number(share.toPrecision(2))).replace(/0$/, '') : Math.round(share)) + '\u2009%'
  return t('over', { by, limit: text(limit) })
}

/** Whose requests a limit is about, in words; empty for all. */
export function whose(l: Pick<Judged, 'workload' | 'turn'>): string {
  return [l.workload ?? '', l.turn ? t(l.turn === 'first' ? 'firstTurns' : 'laterTurns') : ''].filter((s) => s !== '').join(', ')
}

const limitText = (v: number) => brief(duration(v))

/** A missed limit in words. Aside: the run is not judged by it. */
export interface Missed { text: string; aside: boolean }

/**
 * The missed ones among limits on some figures: first those that decide about the run, of them its
 * own first, then what is missed by most. One that is not on the p95 of the figure shown, of all
 * requests, says whose and which value it is about before it says by how much it is over: the
 * number beside it is another one.
 */
export function missed(limits: Judged[], of: RegExp, shown: string): Missed[] {
  const by = (l: Judged) => (l.value === null ? Infinity : l.value / l.limit)
  return limits.filter((l) => l.met === false && of.test(l.metric))
    .sort((a, b) => Number(a.aside ?? false) - Number(b.aside ?? false) || Number(Boolean(a.workload)) - Number(Boolean(b.workload)) || by(b) - by(a))
    .map((l) => {
      // Failed requests count as infinite: then it is missed although the value is not known.
      const words = beyond(l.value, l.limit, limitText) || t('overOnly', { limit: limitText(l.limit) })
      const who = whose(l)
      const same = l.metric === shown && l.stat === 'p95' && who === ''
      const name = [l.metric === shown ? '' : l.metric, l.stat].filter((s) => s !== '').join(' ')
      const value = l.value === null ? '' : limitText(l.value)
      return { text: same ? words : `${[who, name, value].filter((s) => s !== '').join(' ')}: ${words}`, aside: l.aside ?? false }
    })
}
