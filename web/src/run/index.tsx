// The run view: head, lanes, marks, and the requests of the range below. One Board holds its
// state; the same view shows a live run, a finished one, and an offline report.

import type { ComponentType } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { api, HttpSource, type Mark, type Ms, type ProbeDoc, type RunDoc, type SeriesList, type Source } from '../api'
import type { PageProps } from '../app'
import { count, duration, elapsed, plain } from '../format'
import { told } from '../i18n/told'
import { useKeys } from '../keys'
import type { RequestsProps } from '../pages/requests'
import { onPlace, setQuery, usePlace } from '../route'
import { Dialog, Empty, Later, Trouble, useLoad } from '../ui'
import { Board } from './board'
import { Head } from './head'
import { lackOf, laneName } from './lane'
import { groups } from './lanes'
import { Levels } from './levels'
import { Stage } from './stage'
import { length } from './view'
import { t } from './words'
import 'uplot/dist/uPlot.min.css'
import './run.css'

const explorer = import.meta.glob<{ Requests: ComponentType<RequestsProps> }>('../pages/requests.tsx')
const stepsPage = import.meta.glob<{ Steps: ComponentType<{ doc: RunDoc }> }>('../pages/steps.tsx')
const probePage = import.meta.glob<{ ProbeFits: ComponentType<{ probe: ProbeDoc }> }>('../pages/probe.tsx')

export default function RunPage({ path }: PageProps) {
  const source = useMemo(() => new HttpSource(path[0] ?? ''), [path[0]])
  return <RunView source={source} />
}

export function RunView({ source }: { source: Source }) {
  const read = useLoad((s) => Promise.all([source.doc(s), source.series(s)]), [source])
  if (read.value) return <Loaded source={source} doc={read.value[0]} list={read.value[1]} />
  if (read.error) return <div class="page"><Trouble error={read.error} again={read.again} /></div>
  return <Later><Skeleton source={source} /></Later>
}

function Loaded({ source, doc, list }: { source: Source; doc: RunDoc; list: SeriesList }) {
  const board = useMemo(() => new Board(source, doc, list), [source])
  const [, again] = useState(0)
  const [dialog, setDialog] = useState<'lanes' | null>(null)
  const [marks, setMarks] = useState(false)
  const [mark, setMark] = useState<Mark | null>(null)
  useEffect(() => {
    const off = [board.onShape(() => again((n) => n + 1)), onPlace(() => board.revisit())]
    board.open()
    return () => { for (const f of off) f(); board.close() }
  }, [board])
  useBoardKeys(board, () => setDialog('lanes'), () => setMarks((m) => !m))
  // A run that ended in its warm-up has none in its figures, and requests all the same.
  const uncounted = !board.live && board.doc.run.requests === 0
  const [sent, setSent] = useState<number | null>(null)
  useEffect(() => {
    if (!uncounted) return
    const abort = new AbortController()
    source.requests({ limit: 1 }, abort.signal).then((r) => { if (!abort.signal.aborted) setSent(r.total) }, () => { if (!abort.signal.aborted) setSent(0) })
    return () => abort.abort()
  }, [source, uncounted])
  const nothing = uncounted && sent === 0
  return (
    <div class="run">
      <Head board={board} marksOpen={marks} toggleMarks={() => setMarks(!marks)} openLanes={() => setDialog('lanes')} />
      {board.error && <div class="page"><Trouble error={board.error} /></div>}
      <Notes board={board} />
      {nothing && <Nothing doc={board.doc} offline={source.offline} />}
      {marks && <MarkList board={board} pick={setMark} />}
      {/* Without requests there is nothing to draw but what the servers said meanwhile. */}
      {!(uncounted && board.list.series.length === 0) && (
        <>
          <Stage board={board} mark={mark} pick={setMark} />
          <p class="run-help small faint no-print">{t('mouse')}</p>
        </>
      )}
      <Levels board={board} />
      <Results doc={board.doc} />
      {!nothing && <Explorer board={board} />}
      {dialog === 'lanes' && <LanesDialog board={board} close={() => setDialog(null)} />}
    </div>
  )
}

/** A run without requests: why there are none, and what to type to have some. */
function Nothing({ doc: { run, summary }, offline }: { doc: RunDoc; offline: boolean }) {
  const due = (summary as { run?: { window_s?: number } } | null)?.run?.window_s
  const text = run.state === 'interrupted' || run.state === 'killed' ? t('neverStopped')
    : run.state === 'failed' ? t('neverFailed')
      : t('neverDue', { window: plain(duration((due ?? run.duration_s ?? 0) * 1000)), load: run.load })
  return (
    <div class="page">
      <Empty text={text} type={run.state === 'failed' ? `plimsoll check ${run.target}` : `plimsoll run --url ${run.target} --rate 1 --duration 1m`}>
        {!offline && <a href={`/scenarios?run=${encodeURIComponent(run.id)}`}>{t('runAgain')}</a>}
      </Empty>
    </div>
  )
}

/** What a reader must know before the figures: reasons of the verdict, and samples not shown. */
function Notes({ board }: { board: Board }) {
  const [, again] = useState(0)
  useEffect(() => board.onHead(() => again((n) => n + 1)), [board])
  // Those of a run that goes on come and go: they stand in the head, where they move nothing.
  const notes: { text: string; fail: boolean }[] = board.live
    ? []
    : board.doc.marks.filter((m) => m.kind === 'note' && m.severity === 'fail').map((m) => ({ text: told(m.text, m.said), fail: board.doc.run.verdict !== 'client-bound' }))
  if (board.dropped > 0) notes.push({ text: t('dropped', { n: plain(count(board.dropped)) }), fail: false })
  if (notes.length === 0) return null
  return <ul class="run-notes">{notes.map((n) => <li key={n.text} class={'remark' + (n.fail ? ' bad' : '')}>{n.text}</li>)}</ul>
}

function MarkList({ board, pick }: { board: Board; pick: (m: Mark | null) => void }) {
  const list = [...board.doc.marks].sort((a, b) => a.t - b.t)
  if (list.length === 0) return <p class="mark-list muted small">{t('marksNone')}</p>
  return (
    <ol class="mark-list" onMouseLeave={() => pick(null)}>
      {list.map((m, i) => (
        <li key={i}>
          <button
            type="button" class="plain" onMouseEnter={() => pick(m)} onFocus={() => pick(m)} onBlur={() => pick(null)}
            onClick={() => { if (m.to !== null && m.to > m.t) board.select({ from: m.t, to: m.to }); else board.point(m.t) }}
          >
            <span class="num muted">{elapsed(m.t, true)}</span>
            <i class={'mark ' + m.severity} aria-hidden="true" />
            <span>{told(m.text, m.said)}</span>
          </button>
        </li>
      ))}
    </ol>
  )
}

function LanesDialog({ board, close }: { board: Board; close: () => void }) {
  const [, again] = useState(0)
  useEffect(() => board.onShape(() => again((n) => n + 1)), [board])
  const shown = board.shown.map((l) => l.key)
  const toggle = (key: string) => board.choose({ keys: shown.includes(key) ? shown.filter((k) => k !== key) : [...shown, key], heat: board.chosen.heat })
  return (
    <Dialog title={t('chooseLanes')} onClose={close}>
      <div class="row">
        <button type="button" class="button small" onClick={() => board.choose(null)}>{t('usual')}</button>
        <button type="button" class="button small" onClick={close}>{t('close')}</button>
      </div>
      {groups.map((g) => {
        const of = board.lanes.filter((l) => l.group === g)
        if (of.length === 0) return null
        const order = [...of].sort((a, b) => at(shown, a.key) - at(shown, b.key))
        return (
          <fieldset key={g} class="lane-choice">
            <legend>{t(g)}</legend>
            {order.map((l) => (
              <div key={l.key} class="row tight">
                <label class="row tight"><input type="checkbox" checked={shown.includes(l.key)} onChange={() => toggle(l.key)} /><span class={l.missing ? 'faint' : ''}>{laneName(l)}</span></label>
                {shown.includes(l.key) && (
                  <span class="moves">
                    <button type="button" class="plain small muted" onClick={() => board.move(l.key, -1)}>{t('up')}</button>
                    <button type="button" class="plain small muted" onClick={() => board.move(l.key, 1)}>{t('down')}</button>
                  </span>
                )}
              </div>
            ))}
          </fieldset>
        )
      })}
    </Dialog>
  )
}

const at = (list: string[], key: string) => { const i = list.indexOf(key); return i < 0 ? list.length : i }

/** What a run of several steps, and a probe, come to; loaded where there is such a thing. */
function Results({ doc }: { doc: RunDoc }) {
  const [Steps, setSteps] = useState<{ view: ComponentType<{ doc: RunDoc }> } | null>(null)
  const [Fits, setFits] = useState<{ view: ComponentType<{ probe: ProbeDoc }> } | null>(null)
  const list = doc.summary?.steps
  const several = Array.isArray(list) && list.length > 1
  const probe = doc.probe !== null
  useEffect(() => {
    let here = true
    if (several) stepsPage['../pages/steps.tsx']?.().then((m) => { if (here) setSteps({ view: m.Steps }) }, () => {})
    if (probe) probePage['../pages/probe.tsx']?.().then((m) => { if (here) setFits({ view: m.ProbeFits }) }, () => {})
    return () => { here = false }
  }, [several, probe])
  if (!(several && Steps) && !(doc.probe && Fits)) return null
  return (
    <div class="run-results">
      {doc.probe && Fits && <Fits.view probe={doc.probe} />}
      {several && Steps && <Steps.view doc={doc} />}
    </div>
  )
}

/** The requests of the range; the component is loaded with the view, not before it. */
function Explorer({ board }: { board: Board }) {
  const [Part, set] = useState<{ view: ComponentType<RequestsProps> } | null>(null)
  const [tick, setTick] = useState(board.tick)
  const root = useRef<HTMLElement>(null)
  // What nobody sees is not read anew: a live run's requests are many.
  useEffect(() => {
    let seen = false
    const follow = () => { if (seen || !board.live) setTick(board.tick) }
    const o = new IntersectionObserver((entries) => { seen = entries[entries.length - 1]?.isIntersecting ?? false; follow() })
    if (root.current) o.observe(root.current)
    const off = board.onHead(follow)
    return () => { o.disconnect(); off() }
  }, [board, Part])
  const { query } = usePlace()
  useEffect(() => {
    let here = true
    explorer['../pages/requests.tsx']?.().then((m) => { if (here) set({ view: m.Requests }) }, () => {})
    return () => { here = false }
  }, [])
  // A live run's end moves every second; requests are read again with the ticks only.
  const end = useMemo(() => board.bounds.to, [tick, board.live, board.doc])
  if (!Part) return null
  const s = board.selection ?? { from: board.bounds.from, to: end }
  const n = query.get('n')
  return (
    <section class="run-requests" ref={root} aria-label={t('requests')}>
      <Part.view
        source={board.source} doc={board.doc} from={s.from} to={s.to} live={board.live} tick={tick}
        filter={query.get('q') ?? ''} onFilter={(q) => setQuery({ q: q || null })}
        selected={n !== null && /^\d+$/.test(n) ? Number(n) : null} onSelect={(i) => setQuery({ n: i === null ? null : String(i) }, false)}
      />
    </section>
  )
}

function useBoardKeys(board: Board, openLanes: () => void, toggleMarks: () => void) {
  const step = (by: number) => {
    const keys = board.shown.filter((l) => lackOf(board, l) === null).map((l) => l.key)
    const i = board.current === null ? (by > 0 ? 0 : keys.length - 1) : Math.min(Math.max(keys.indexOf(board.current) + by, 0), keys.length - 1)
    board.current = keys[i] ?? null
    board.changed('shape')
    const el = laneElement(board.current)
    el?.scrollIntoView({ block: 'nearest' })
    el?.querySelector<HTMLElement>('.lane-name')?.focus({ preventScroll: true })
  }
  const click = (selector: string) => laneElement(board.current)?.querySelector<HTMLElement>(selector)?.click()
  const cursor = (by: number) => {
    const w = board.window
    const next = (board.cursor ?? (by > 0 ? w.from : w.to)) + by * Math.max(length(w) / 200, 100)
    const to = Math.min(Math.max(next, w.from), w.to)
    if (anchor.at !== null) board.select({ from: Math.min(anchor.at, to), to: Math.max(anchor.at, to) }, false)
    board.point(to)
  }
  const anchor = useMemo<{ at: Ms | null }>(() => ({ at: null }), [board])
  const brush = () => {
    if (anchor.at === null) {
      const w = board.window
      if (board.cursor === null) board.point((w.from + w.to) / 2)
      anchor.at = board.cursor
      return
    }
    board.select(board.selection)
    anchor.at = null
  }
  const middle = () => board.cursor ?? (board.window.from + board.window.to) / 2
  useKeys([
    { keys: 'j', text: () => t('kNext'), run: () => step(1) },
    { keys: 'k', text: () => t('kPrev'), run: () => step(-1) },
    { keys: 'J', text: () => t('kMoveDown'), run: () => { if (board.current) board.move(board.current, 1) } },
    { keys: 'K', text: () => t('kMoveUp'), run: () => { if (board.current) board.move(board.current, -1) } },
    { keys: 'f', text: () => t('kFocus'), run: () => click('.lane-name') },
    { keys: 'h', text: () => t('kHeat'), run: () => { const l = board.shown.find((x) => x.key === board.current); if (l?.kind === 'bands') board.toggleHeat(l.key) } },
    { keys: 't', text: () => t('kTable'), run: () => click('[data-table]') },
    { keys: 'ArrowLeft', text: () => t('kLeft'), run: () => cursor(-1) },
    { keys: 'ArrowRight', text: () => t('kRight'), run: () => cursor(1) },
    { keys: 'b', text: () => t('kBrush'), run: brush },
    { keys: 'z', text: () => t('kZoomRange'), run: () => { if (board.selection) board.look(board.selection) } },
    { keys: '+', text: () => t('kIn'), run: () => board.zoomAt(middle(), 0.7) },
    { keys: '=', text: () => t('kIn'), hidden: true, run: () => board.zoomAt(middle(), 0.7) },
    { keys: '-', text: () => t('kOut'), run: () => board.zoomAt(middle(), 1 / 0.7) },
    { keys: 'shift+ArrowLeft', text: () => t('kPanLeft'), run: () => board.panBy(-0.2) },
    { keys: 'shift+ArrowRight', text: () => t('kPanRight'), run: () => board.panBy(0.2) },
    { keys: '0', text: () => t('kWhole'), run: () => { anchor.at = null; board.whole() } },
    { keys: 'l', text: () => t('kLive'), run: () => { if (board.live) board.follow() } },
    { keys: 'v', text: () => t('kLanes'), run: openLanes },
    { keys: 'm', text: () => t('kMarks'), run: toggleMarks },
    { keys: 'Escape', text: () => t('kEsc'), run: () => { anchor.at = null; board.point(null); board.select(null) } },
  ])
}

const laneElement = (key: string | null) => (key === null ? null : document.querySelector<HTMLElement>(`[data-lane="${CSS.escape(key)}"]`))

function Skeleton({ source }: { source: Source }) {
  const [share, setShare] = useState<number | null>(null)
  useEffect(() => {
    if (source.offline) return
    const abort = new AbortController()
    // Whoever opens a run first has to wait until what is drawn of it is made.
    const id = setInterval(() => api.opening(source.id, abort.signal).then((o) => setShare(o.share), () => setShare(null)), 1000)
    return () => { abort.abort(); clearInterval(id) }
  }, [source])
  const percent = share === null ? undefined : Math.round(share * 100)
  return (
    <div class="run" aria-busy="true">
      <header class="run-head">
        <div class="run-line"><span class="bone bone-title" /></div>
        <div class="run-bar" role="progressbar" aria-hidden={share === null} aria-label={t('making')} aria-valuenow={percent} aria-valuemin={0} aria-valuemax={100}>
          {share !== null && <i style={{ width: `${share * 100}%` }} />}
        </div>
        {percent !== undefined && <p class="muted small">{t('makingShare', { n: percent })}</p>}
        <div class="run-figures">{Array.from({ length: 6 }, (_, i) => <div key={i} class="run-figure"><span class="bone" /></div>)}</div>
      </header>
      <div class="stage">{Array.from({ length: 6 }, (_, i) => <div key={i} class="lane bone-lane"><div class="lane-label"><span class="bone" /></div><div class="bone" /></div>)}</div>
    </div>
  )
}
