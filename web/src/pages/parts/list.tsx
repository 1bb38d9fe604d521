// The table of requests: only the rows in sight exist, and only pages near them are read.

import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Query, RequestRow, Source } from '../../api'
import { count, duration, elapsed, plain } from '../../format'
import { words } from '../../i18n'
import { told } from '../../i18n/told'
import { Num, Trouble } from '../../ui'
import { sessionOf } from '../figures'
import { rowsInSight } from '../virtual'
import { Key } from './marker'

const t = words(
  {
    label: 'Requests', n: '#', t: 'Time', workload: 'Workload', status: 'Status', prompt: 'Prompt', cached: 'Cached', output: 'Output', finish: 'Finish', session: 'Session', none: 'No request matches.',
    hint: 'Up and down move, Enter opens', sort: 'Sort by {column}', onPaper: '{n} of {of} requests are on paper.',
  },
  {
    label: '请求', n: '#', t: '时间', workload: '负载', status: '状态', prompt: '提示', cached: '缓存', output: '输出', finish: '结束', session: '会话', none: '没有匹配的请求。',
    hint: '上下键移动，回车打开', sort: '按{column}排序', onPaper: '纸上为 {of} 个请求中的 {n} 个。',
  },
)

const pageRows = 200
const rowHeight = 26

interface Column { sort: string; head: string; num?: boolean; cell: (r: RequestRow, colour: (r: RequestRow) => number) => ComponentChildren }
const columns = (): Column[] => [
  { sort: 'n', head: t('n'), num: true, cell: r => r.n },
  { sort: 't', head: t('t'), num: true, cell: r => elapsed(r.t, true) },
  { sort: 'workload', head: t('workload'), cell: (r, colour) => <><Key i={colour(r)} /> {r.workload}</> },
  { sort: 'status', head: t('status'), cell: r => <span class={r.status === 'error' ? 'is-fail' : r.status === 'ok' ? 'muted' : 'is-note'}>{r.error_kind || told(r.status)}</span> },
  { sort: 'ttft', head: 'ttft', num: true, cell: r => <Num f={duration(r.ttft_ms)} /> },
  { sort: 'tpot', head: 'tpot', num: true, cell: r => <Num f={duration(r.tpot_ms)} /> },
  { sort: 'e2e', head: 'e2e', num: true, cell: r => <Num f={duration(r.e2e_ms)} /> },
  { sort: 'prompt', head: t('prompt'), num: true, cell: r => <Num f={count(r.prompt_tokens)} /> },
  { sort: 'cached', head: t('cached'), num: true, cell: r => <Num f={count(r.cached_tokens)} /> },
  { sort: 'output', head: t('output'), num: true, cell: r => <Num f={count(r.output_tokens)} /> },
  { sort: 'finish', head: t('finish'), cell: r => r.finish },
  { sort: 'session', head: t('session'), num: true, cell: r => `${sessionOf(r)}.${r.turn}` },
]

/** In full what a cell may have no room for. */
const whole: Record<string, (r: RequestRow) => string> = { workload: r => r.workload, status: r => r.error_kind || r.status, session: r => `session:${r.session}` }

export interface ListProps {
  source: Source
  query: Query
  sort: string
  onSort: (s: string) => void
  selected: number | null
  onSelect: (n: number) => void
  colour: (r: RequestRow) => number
  tick: number
  onCounts: (total: number, matched: number) => void
  onRows: (rows: RequestRow[]) => void
  /** Set by the list: the request by places before or behind the selected one. */
  mover: { current: ((by: 1 | -1) => void) | null }
}

export function List(p: ListProps) {
  const view = useRef<HTMLDivElement>(null)
  const pages = useRef(new Map<number, RequestRow[]>())
  const asked = useRef(new Map<number, AbortController>())
  const [matched, setMatched] = useState<number | null>(null)
  const [scroll, setScroll] = useState(0)
  const [height, setHeight] = useState(392)
  const [at, setAt] = useState(0)
  const [error, setError] = useState<Error | null>(null)
  const [, redraw] = useState(0)
  const key = JSON.stringify([p.query, p.sort])
  const now = useRef(key)

  const read = (page: number) => {
    if (asked.current.has(page)) return
    const abort = new AbortController()
    asked.current.set(page, abort)
    p.source.requests({ ...p.query, sort: p.sort, limit: pageRows, offset: page * pageRows }, abort.signal).then(
      r => {
        if (abort.signal.aborted) return
        pages.current.set(page, r.rows)
        setMatched(r.matched)
        setError(null)
        p.onCounts(r.total, r.matched)
        p.onRows(r.rows)
        redraw(v => v + 1)
      },
      (e: unknown) => { if (!abort.signal.aborted) { asked.current.delete(page); setError(e instanceof Error ? e : new Error(String(e))) } },
    )
  }
  const sight = rowsInSight(matched ?? 0, rowHeight, scroll, height)
  useEffect(() => {
    // Another question: what is on screen stays until the answer is there.
    for (const a of asked.current.values()) a.abort()
    asked.current.clear()
    if (now.current !== key) {
      now.current = key
      view.current?.scrollTo({ top: 0 })
      setScroll(0)
      setAt(0)
      for (const page of pages.current.keys()) if (page > 0) pages.current.delete(page)
      read(0)
      return
    }
    const first = Math.floor(sight.first / pageRows)
    const last = Math.floor(Math.max(sight.end - 1, 0) / pageRows)
    for (const page of [...pages.current.keys()]) if (page < first || page > last) pages.current.delete(page)
    for (let page = first; page <= last; page++) read(page)
  }, [key, p.source, p.tick])
  useEffect(() => {
    for (let page = Math.floor(sight.first / pageRows); page <= Math.floor(Math.max(sight.end - 1, 0) / pageRows); page++) if (!pages.current.has(page)) read(page)
  }, [sight.first, sight.end, matched])
  useEffect(() => () => { for (const a of asked.current.values()) a.abort() }, [])
  useEffect(() => {
    const el = view.current
    if (el === null) return
    const seen = new ResizeObserver(() => setHeight(el.clientHeight))
    seen.observe(el)
    return () => seen.disconnect()
  }, [])

  const rowAt = (i: number): RequestRow | undefined => pages.current.get(Math.floor(i / pageRows))?.[i % pageRows]
  const show = (i: number) => {
    const el = view.current
    if (el === null || matched === null) return
    const to = Math.min(Math.max(i, 0), Math.max(matched - 1, 0))
    setAt(to)
    const top = sight.scrollOf(to)
    const shown = height - rowHeight
    if (top < el.scrollTop) el.scrollTop = top
    else if (top + rowHeight > el.scrollTop + shown) el.scrollTop = top + rowHeight - shown
  }
  p.mover.current = by => {
    let here = at
    for (let i = sight.first; i < sight.end; i++) if (rowAt(i)?.n === p.selected) here = i
    const to = Math.min(Math.max(here + by, 0), Math.max((matched ?? 1) - 1, 0))
    const row = rowAt(to)
    show(to)
    if (row !== undefined) p.onSelect(row.n)
  }
  const onKey = (e: KeyboardEvent) => {
    const page = Math.max(Math.floor(height / rowHeight) - 2, 1)
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: (matched ?? 1) - 1 }[e.key]
    if (to !== undefined) show(to)
    else if (e.key === 'Enter' && e.target === e.currentTarget) { const r = rowAt(at); if (r !== undefined) p.onSelect(r.n) } else return
    e.preventDefault()
    e.stopPropagation()
  }
  const cols = columns()
  const down = p.sort.startsWith('-')
  const by = down ? p.sort.slice(1) : p.sort
  const rows = []
  for (let i = sight.first; i < sight.end; i++) {
    const r = rowAt(i)
    rows.push(
      <div
        key={i} id={`rq-row-${i}`} role="row" aria-rowindex={i + 2} aria-selected={r !== undefined && r.n === p.selected} class={'rq-row' + (i === at ? ' is-at' : '')}
        style={{ top: `${sight.topOf(i)}px` }} onClick={() => { setAt(i); if (r !== undefined) p.onSelect(r.n) }}
      >
        {cols.map(c => <span key={c.sort} role="gridcell" class={c.num ? 'num' : ''} title={r === undefined ? undefined : whole[c.sort]?.(r)}>{r === undefined ? '' : c.cell(r, p.colour)}</span>)}
      </div>,
    )
  }
  return (
    <div>
      {error && <Trouble error={error} again={() => { setError(null); read(Math.floor(sight.first / pageRows)) }} />}
      <div
        ref={view} class="rq-table" role="grid" tabIndex={0} aria-label={`${t('label')}. ${t('hint')}`} aria-rowcount={(matched ?? 0) + 1} aria-busy={matched === null}
        aria-activedescendant={matched ? `rq-row-${at}` : undefined} onScroll={e => setScroll(e.currentTarget.scrollTop)} onKeyDown={onKey}
      >
        <div class="rq-row rq-head" role="row" aria-rowindex={1}>
          {cols.map(c => (
            <span key={c.sort} role="columnheader" class={c.num ? 'num' : ''} aria-sort={by === c.sort ? (down ? 'descending' : 'ascending') : 'none'}>
              <button type="button" class="plain" title={t('sort', { column: c.head })} onClick={() => p.onSort(by === c.sort ? (down ? c.sort : '-' + c.sort) : c.num && c.sort !== 'n' && c.sort !== 't' ? '-' + c.sort : c.sort)}>
                {c.head}{by === c.sort ? (down ? ' ↓' : ' ↑') : ''}
              </button>
            </span>
          ))}
        </div>
        <div class="rq-rows" style={{ height: `${sight.height}px` }} role="rowgroup">{rows}</div>
        {matched === 0 && <p class="muted" style={{ padding: '12px 8px' }}>{t('none')}</p>}
      </div>
      {matched !== null && rows.length < matched && <p class="paper-only small muted">{t('onPaper', { n: plain(count(rows.length)), of: plain(count(matched)) })}</p>}
    </div>
  )
}
