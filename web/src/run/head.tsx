// The two lines that stay on top: what this run is and how it stands, and six figures with
// their recent course. A figure over its limit turns, and says by how much.

import { useEffect, useRef, useState } from 'preact/hooks'
import { api } from '../api'
import { count, duration, elapsed, type Figure, figure, local, plain, share, utc } from '../format'
import { told } from '../i18n/told'
import { onTheme, palette } from '../theme'
import { loadParts } from '../pages/find-runs'
import { Num } from '../ui'
import type { Board } from './board'
import { meanInFlight, sparkLength } from './board'
import { bandKey, indices, summary } from './frame'
import { shortNames } from './lanes'
import { held, type Missed, missed, standing } from './missed'
import { known, t } from './words'

type N = number | null

/** One figure of the headline. */
interface HeadFigure { key: string; label: string; f: Figure; course: N[]; over: Missed[]; fail: boolean }

/** The six figures as they stand. */
function headFigures(board: Board): HeadFigure[] {
  const live = board.live && !board.selection && board.snapshot !== null
  const h = board.snapshot?.header
  const f = board.figures
  const range = live ? { from: board.now - sparkLength * 1000, to: board.now } : board.range
  const frame = board.base
  const course = (signal: string): N[] => {
    const s = board.list.series.find((x) => x.signal === signal && !x.workload && !x.source && !x.labels)
    const axis = frame?.grid
    const v = s && frame?.series.get(s.id)?.mean
    return v && axis ? cut(v, ...indices(axis, range.from, range.to)) : []
  }
  const band = (name: string): N[] => {
    const axis = frame?.bandAxis
    const v = frame?.bands.get(bandKey(name, ''))?.p95
    return v && axis ? cut(v, ...indices(axis, range.from, range.to)) : []
  }
  const good = (): N[] => (frame?.good && frame.bandAxis ? cut(frame.good, ...indices(frame.bandAxis, range.from, range.to)) : [])
  // What only snapshots tell begins when the view was opened; the rest of the minute is not known.
  const past = (k: 'goodput_rps' | 'ttft_p95_ms' | 'tpot_p95_ms') => [...new Array<N>(sparkLength - board.history.length).fill(null), ...board.history.map((x) => x[k])]
  const meanOf = (signal: string): N => {
    const s = frame?.series.get(board.list.series.find((x) => x.signal === signal && !x.workload && !x.source && !x.labels)?.id ?? -1)
    return (s && frame?.grid && summary(frame.grid, s, range.from, range.to)?.mean) ?? null
  }
  const inFlight = course('client.requests_in_flight')
  const failures = live ? (h?.failures ?? 0) : f ? f.requests.error + f.requests.incomplete : null
  const failShare = live ? null : f && f.requests.scheduled ? (f.requests.error + f.requests.incomplete) / f.requests.scheduled : null
  const names = shortNames(board.doc.workloads)
  const limits = standing(board.doc, live ? (h ?? null) : null, f).map((l) => (l.workload ? { ...l, workload: names[board.doc.workloads.indexOf(l.workload)] ?? l.workload } : l))
  const made = (key: string, label: string, fig: Figure, c: N[], over: Missed[] = [], fail = over.some((o) => !o.aside)): HeadFigure => ({ key, label, f: fig, course: c, over, fail })
  const p95 = (k: 'ttft' | 'tpot') => (live ? (held(limits, k) ?? h?.[`${k}_p95_ms`] ?? null) : (f?.latency_ms[k]?.p95 ?? null))
  return [
    made('inflight', t('hInFlight'), live ? count(h?.in_flight) : count((board.selection ? null : meanInFlight(board.doc)) ?? meanOf('client.requests_in_flight')), inFlight),
    made('goodput', t('hGoodput'), figure(live ? h?.goodput_rps : f?.goodput_rps, 'requests', true), live ? past('goodput_rps') : good(), missed(limits, /^(e2e|ttlt)/, '')),
    made('ttft', t('hTtft'), duration(p95('ttft')), live ? past('ttft_p95_ms') : band('ttft'), missed(limits, /^ttf/, 'ttft')),
    made('tpot', t('hTpot'), duration(p95('tpot')), live ? past('tpot_p95_ms') : band('tpot'), missed(limits, /^(tpot|itl)/, 'tpot')),
    made('output', t('hOutput'), figure(live ? h?.output_per_s : f?.tokens.output_per_s, 'tokens', true), course('client.output_tokens')),
    made('failures', t('hFailures'), count(failures), course('client.requests_failed'), failShare ? [{ text: plain(share(failShare)), aside: false }] : [], (failures ?? 0) > 0),
  ]
}

const cut = (v: N[], a: number, b: number) => v.slice(a, b + 1)

/** At most n values, each the largest of its share: peaks stay. */
export function fewer(v: N[], n: number): N[] {
  if (v.length <= n) return v
  return Array.from({ length: n }, (_, i) => {
    let most: N = null
    for (let j = Math.floor((i * v.length) / n); j < Math.floor(((i + 1) * v.length) / n); j++) {
      const x = v[j]
      if (x !== null && x !== undefined && (most === null || x > most)) most = x
    }
    return most
  })
}

const sparkW = 72
const sparkH = 20

function Spark({ values, fail, title }: { values: N[]; fail: boolean; title: string }) {
  const ref = useRef<HTMLCanvasElement>(null)
  const draw = useRef(() => {})
  draw.current = () => {
    const c = ref.current
    const ctx = c?.getContext('2d')
    if (!c || !ctx) return
    const px = devicePixelRatio || 1
    if (c.width !== sparkW * px) { c.width = sparkW * px; c.height = sparkH * px }
    ctx.setTransform(px, 0, 0, px, 0, 0)
    ctx.clearRect(0, 0, sparkW, sparkH)
    const v = fewer(values, sparkLength)
    const top = Math.max(...v.map((x) => x ?? 0), 0)
    const p = palette()
    ctx.strokeStyle = fail ? p.fail : p.muted
    ctx.lineWidth = 1.25
    ctx.lineJoin = 'round'
    ctx.beginPath()
    let on = false
    const n = Math.max(v.length, 2)
    v.forEach((x, i) => {
      if (x === null) { on = false; return }
      const X = 1 + (i / (n - 1)) * (sparkW - 2)
      const Y = sparkH - 1.5 - (top > 0 ? x / top : 0) * (sparkH - 3)
      if (on) ctx.lineTo(X, Y)
      else { ctx.moveTo(X, Y); ctx.lineTo(X + 0.5, Y) }
      on = true
    })
    ctx.stroke()
  }
  useEffect(() => draw.current())
  // At once: the printer does not wait for the next frame.
  useEffect(() => onTheme(() => draw.current()), [])
  return <canvas ref={ref} class="spark" title={title} aria-hidden="true" />
}

/** A target as it is called: without what all have. */
const bare = (target: string) => target.replace(/^https?:\/\//, '').replace(/\/$/, '')

const verdictClass = (v: string) => (v === 'invalid' || v === 'failed' ? ' is-fail' : v === 'client-bound' || v === 'interrupted' || v === 'killed' ? ' is-note' : v === 'valid' ? ' is-valid' : '')

export function Head({ board, marksOpen, toggleMarks, openLanes }: { board: Board; marksOpen: boolean; toggleMarks: () => void; openLanes: () => void }) {
  const { doc } = board
  const { run } = doc
  const [sure, setSure] = useState(false)
  const [, again] = useState(0)
  useEffect(() => board.onHead(() => again((n) => n + 1)), [board])
  const root = useRef<HTMLElement>(null)
  // The time axis stays below the head, however high that is.
  useEffect(() => {
    const el = root.current
    if (!el) return
    const o = new ResizeObserver(() => document.documentElement.style.setProperty('--head', el.offsetHeight + 'px'))
    o.observe(el)
    return () => o.disconnect()
  }, [])
  const snap = board.snapshot
  const live = board.live
  const verdict = live ? (snap?.verdict ?? null) : run.verdict
  const stopping = live && (snap?.stopping ?? doc.stopping)
  const phase = snap?.phase ?? doc.phases[doc.phases.length - 1]?.name
  const now = live ? board.now : run.duration_s !== null ? run.duration_s * 1000 : doc.span.to
  const planned = doc.planned_ms
  const done = live ? (snap?.share ?? (planned ? Math.min(1, now / planned) : null)) : null
  const lastStep = snap?.steps ?? doc.phases.reduce((m, p) => Math.max(m, p.step + 1), 0)
  const ended = run.state === 'done' ? '' : known(run.state === 'failed' ? 'failedRun' : run.state)
  const sparkTitle = live && !board.selection ? t('spark60') : t('sparkRange')
  // While a run goes on its verdict is said when there is a doubt, and here that there is none.
  const sound = live && !verdict && !stopping && phase === 'steady' && (snap?.header.ok ?? 0) > 0 && (snap?.reasons.length ?? 0) === 0
  const what = [run.model, bare(run.target), loadParts(run.load, run.workloads).map((p) => told(p)).join(', ')].filter((s) => s !== '').join(' · ')
  const reasons = live ? (snap?.reasons ?? []).map((r, i) => told(r, snap?.reasons_said[i])) : []
  return (
    <header class="run-head" ref={root}>
      <div class="run-line">
        <h1 class="cut" title={run.id}>{run.name || run.id}</h1>
        {verdict && <strong class={'verdict' + verdictClass(verdict)} title={reasons.join('\n')}>{known(verdict)}</strong>}
        {reasons.length > 0 && <span class="run-reasons cut small muted" title={reasons.join('\n')}>{reasons.join('; ')}</span>}
        {!live && ended && <strong class={'verdict' + verdictClass(run.state)}>{ended}</strong>}
        {sound && <strong class="verdict is-valid">{t('soFar')}</strong>}
        {live && <span class="nowrap muted">{stopping ? t('stopping') : phase ? known(phase) : t('waitingRun')}{lastStep > 1 && snap ? ` · ${t('step', { n: snap.step + 1, of: lastStep })}` : ''}</span>}
        <span class="num nowrap" title={`${local(run.started)} · ${utc(run.started)}`}>
          {planned && live ? t('of', { a: elapsed(now), b: elapsed(planned) }) : elapsed(now)}
          {live && snap?.left_ms != null && <span class="muted"> · {t('left', { t: elapsed(snap.left_ms) })}</span>}
        </span>
        {what && <span class="run-what cut small muted" title={[what, run.target].join('\n')}>{what}</span>}
        {live && !board.linked && <span class="is-note nowrap" role="status">{t('connecting')}</span>}
        {board.selection && (
          <span class="tag picked nowrap">{t('range')} {elapsed(board.selection.from, true)}–{elapsed(board.selection.to, true)}</span>
        )}
        <span class="run-actions no-print">
          {(board.selection || board.view) && <button type="button" class="button small" onClick={() => board.whole()}>{t('wholeRun')} <kbd>0</kbd></button>}
          {live && !board.following && <button type="button" class="button small primary" onClick={() => board.follow()}>{t('goLive')}</button>}
          <button type="button" class="button small" aria-pressed={marksOpen} onClick={toggleMarks}>{t('marks')}{doc.marks.length > 0 && <span class="num muted">{doc.marks.length}</span>}</button>
          <button type="button" class="button small" onClick={openLanes}>{t('lanes')}</button>
          {!board.source.offline && lastStep > 1 && !live && <a class="button small" href={`/runs/${encodeURIComponent(run.id)}/steps`}>{t('steps')}</a>}
          {!board.source.offline && doc.probe && <a class="button small" href={`/runs/${encodeURIComponent(run.id)}/probe`}>{t('probe')}</a>}
          {!board.source.offline && !live && <a class="button small" href={`/compare?runs=${encodeURIComponent(run.id)}`}>{t('compareWith')}</a>}
          {!board.source.offline && !live && <a class="button small" href={`/scenarios?run=${encodeURIComponent(run.id)}`}>{t('runAgain')}</a>}
          {!board.source.offline && !live && <a class="button small" href={api.reportURL(run.id)} target="_blank" rel="noopener">{t('report')}</a>}
          {live && !stopping && (sure
            ? <button type="button" class="button small" onBlur={() => setSure(false)} onClick={() => { setSure(false); api.stop(run.id).catch((err: Error) => { board.error = err; board.changed('shape') }) }}>{t('stopSure')}</button>
            : <button type="button" class="button small" onClick={() => setSure(true)}>{t('stop')}</button>)}
        </span>
      </div>
      <div class="run-bar" role="progressbar" aria-hidden={done === null} aria-valuenow={done === null ? undefined : Math.round(done * 100)} aria-valuemin={0} aria-valuemax={100}>
        {done !== null && <i style={{ width: `${done * 100}%` }} />}
      </div>
      <dl class={'run-figures' + (doc.slo.length > 0 ? ' limited' : '')}>
        {headFigures(board).map((x) => (
          <div key={x.key} class={'run-figure' + (x.fail ? ' is-fail' : '')} data-figure={x.key}>
            <dt>{x.label}{x.over[0] && <span class={'beyond' + (x.over[0].aside ? ' is-aside' : '')} title={x.over.map((o) => o.text + (o.aside ? ` (${t('aside')})` : '')).join('\n')}>{x.over[0].text}{x.over.length > 1 && ` (+${x.over.length - 1})`}</span>}</dt>
            <dd><Num f={x.f} /></dd>
            <Spark values={x.course} fail={x.fail} title={sparkTitle} />
          </div>
        ))}
      </dl>
    </header>
  )
}
