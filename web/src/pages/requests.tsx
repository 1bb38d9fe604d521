// The request explorer: every request as a dot, as a row, and one of them in full; and what
// chosen ones have in common against the rest.

import { useMemo, useRef, useState } from 'preact/hooks'
import { type Ms, type Query, type RequestRow, type RunDoc, type Source } from '../api'
import type { PageProps } from '../app'
import { brief, count, duration, elapsed, type Figure, plain, share } from '../format'
import { words } from '../i18n'
import { told } from '../i18n/told'
import { useKeys } from '../keys'
import { setQuery, usePlace } from '../route'
import { palette, workColor } from '../theme'
import { Empty, Later, Num, Switch, Trouble, useLoad } from '../ui'
import { figureColumns, type FigureName, termOf } from './figures'
import { parseFilter, statuses, toggleTerm } from './filter'
import { FilterField } from './parts/filter-field'
import { List } from './parts/list'
import { Key } from './parts/marker'
import { OneRequest } from './parts/one'
import { PartOfRun } from './parts/part-of-run'
import { Plot } from './parts/plot'
import { useWidth } from './parts/size'
import './requests.css'
import { bare, type Box } from './scatter'

const t = words(
  {
    title: 'Requests', figure: 'Figure', colour: 'Colour', workload: 'workload', status: 'status', scale: 'Scale', log: 'log', linear: 'linear', of: '{matched} of {total}', without: '{n} without this figure',
    tiles: 'Tiles count requests; single dots are the extremes', prompt: 'prompt tokens', cached: 'cached tokens', output: 'output tokens', legend: 'Show only', slo: 'SLO {stat} {limit}', reading: 'Reading the requests', noRequests: 'No request has been scheduled in this range.', noMatch: 'No request of this range matches the filter.', noneHas: 'None of these {n} requests has {figure}: a request that failed, or was cut off before it, has none.',
    common: 'What {selected} chosen have in common against {rest} others', clear: 'Choose none', chosen: 'chosen', others: 'others', nothing: 'Nothing that the others do not have as well.', add: 'Filter by {field} {value}', box: 'forget the box', sampled: 'Sampled: {how}',
    inBox: 'The table shows the chosen ones only.',
  },
  {
    title: '请求', figure: '指标', colour: '颜色', workload: '负载', status: '状态', scale: '刻度', log: '对数', linear: '线性', of: '{total} 中的 {matched}', without: '{n} 个没有此指标',
    tiles: '方块表示请求数；单独的点是极值', prompt: '提示 token', cached: '缓存 token', output: '输出 token', legend: '只显示', slo: 'SLO {stat} {limit}', reading: '正在读取请求', noRequests: '此范围内没有安排请求。', noMatch: '此范围内没有匹配筛选条件的请求。', noneHas: '这 {n} 个请求都没有 {figure}：失败或在此之前中断的请求没有此指标。',
    common: '选中的 {selected} 个与其余 {rest} 个相比的共同点', clear: '取消选择', chosen: '选中', others: '其余', nothing: '没有与其余请求不同之处。', add: '按 {field} {value} 筛选', box: '取消选框', sampled: '抽样：{how}',
    inBox: '表格只显示选中的请求。',
  },
)

const figures = Object.keys(figureColumns) as FigureName[]
const isTokens = (f: FigureName) => f === 'prompt' || f === 'cached' || f === 'output'
const nameOf = (f: FigureName): string => (f === 'prompt' ? t('prompt') : f === 'cached' ? t('cached') : f === 'output' ? t('output') : f)

const statusShape: Record<string, number> = { ok: 0, error: 6, cancelled: 1, incomplete: 2 }

export interface RequestsProps {
  source: Source
  doc: RunDoc
  from: Ms
  to: Ms
  filter: string
  onFilter: (f: string) => void
  selected: number | null
  onSelect: (n: number | null) => void
  live: boolean
  /** Changes when live data should be read again. */
  tick: number
}

/** A box as it stands in a link. */
const boxText = (b: Box): string => [b.x0, b.x1, b.y0, b.y1].map(v => Number(v.toPrecision(9))).join('_')
function boxFrom(text: string | null): Box | null {
  const v = (text ?? '').split('_').map(Number)
  return v.length === 4 && v.every(n => Number.isFinite(n)) && v[0]! <= v[1]! && v[2]! <= v[3]! ? { x0: v[0]!, x1: v[1]!, y0: v[2]!, y1: v[3]! } : null
}

export function Requests(p: RequestsProps) {
  const { query: at } = usePlace()
  const y: FigureName = figures.includes(at.get('y') as FigureName) ? (at.get('y') as FigureName) : 'ttft'
  const color = at.get('color') === 'status' ? 'status' : 'workload'
  const log = at.get('scale') !== 'linear'
  const sort = at.get('sort') ?? 't'
  const box = useMemo(() => boxFrom(at.get('box')), [at.get('box')])
  const [counts, setCounts] = useState<{ total: number; matched: number } | null>(null)
  const rows = useRef(new Map<number, RequestRow>())
  const mover = useRef<((by: 1 | -1) => void) | null>(null)
  const [plotRef, width] = useWidth()
  const wide = Math.max(Math.round(width / 64) * 64, 320)
  // While the run goes on the end moves on; the question is asked with each tick.
  const tick = p.live ? p.tick : 0
  const range: Query = { from: p.from, to: p.live ? Math.max(p.to, p.doc.span.to) : p.to, filter: p.filter }
  const scatter = useLoad(async s => ({ ...(await p.source.scatter({ ...range, y, color, width: wide, height: 232 }, s)), to: range.to ?? p.to }), [p.source, p.from, p.live ? 0 : p.to, p.filter, y, color, wide, tick])
  const common = useLoad(async s => (box === null ? null : p.source.common(range, { y, xmin: box.x0, xmax: box.x1, ymin: box.y0, ymax: box.y1 }, s)), [p.source, p.from, p.to, p.filter, y, box, tick])
  const bounds: Query = box === null ? range : { from: Math.max(box.x0, p.from), to: Math.min(box.x1 + 0.001, p.to), filter: `${p.filter} ${termOf(y, box.y0, box.y1)}`.trim() }

  const setBox = (b: Box | null) => setQuery({ box: b === null ? null : boxText(b) })
  useKeys([{ keys: 'Escape', text: () => t('box'), hidden: true, run: () => { if (box !== null) setBox(null); else if (p.selected !== null) p.onSelect(null) } }])

  const colours = palette()
  const index = useMemo(() => new Map(p.doc.workloads.map((w, i) => [w, i])), [p.doc.workloads])
  const look = (c: number) => {
    const name = scatter.value?.colors[c] ?? ''
    if (color === 'status') return { name, shape: statusShape[name] ?? 0, colour: name === 'ok' ? workColor(0) : name === 'error' ? colours.fail : name === 'cancelled' ? workColor(3) : workColor(7) }
    const i = index.get(name) ?? c
    return { name, shape: i, colour: workColor(i) }
  }
  const format = (v: number): Figure => (isTokens(y) ? count(v) : duration(v))
  const limit = p.doc.slo.find(l => !l.workload && l.metric === y && !isTokens(y))
  const names = color === 'status' ? [...statuses] : p.doc.workloads
  const filtered = p.filter.split(/\s+/)
  const known = useMemo(() => ['stop', 'length', 'tool_calls', 'content_filter'], [])

  return (
    <div class="rq section">
      <div class="rq-bar">
        <h2>{t('title')}</h2>
        <FilterField filter={p.filter} onFilter={p.onFilter} workloads={p.doc.workloads} finishes={known} />
        <label class="row tight small muted no-print">
          {t('figure')}
          <select class="field" value={y} onChange={e => setQuery({ y: e.currentTarget.value, box: null })}>
            {figures.map(f => <option key={f} value={f}>{nameOf(f)}</option>)}
          </select>
        </label>
        <span class="row tight no-print">
          <Switch label={t('colour')} value={color} options={[['workload', t('workload')], ['status', t('status')]]} onChange={v => setQuery({ color: v === 'workload' ? null : v })} />
          <Switch label={t('scale')} value={log ? 'log' : 'linear'} options={[['log', t('log')], ['linear', t('linear')]]} onChange={v => setQuery({ scale: v === 'log' ? null : v })} />
        </span>
        {counts && <span class="num muted small" role="status">{t('of', { matched: plain(count(counts.matched)), total: plain(count(counts.total)) })}</span>}
      </div>
      <div class="rq-legend small" role="group" aria-label={t('legend')}>
        {names.map((name, i) => {
          const term = `${color}:${/\s/.test(name) ? `"${name}"` : name}`
          return (
            <button key={name} type="button" class="plain" aria-pressed={filtered.includes(term)} onClick={() => p.onFilter(toggleTerm(p.filter, term))}>
              <Key i={color === 'status' ? statusShape[name] ?? 0 : i} {...(color === 'status' && { colour: `st-${name}` })} /><span>{color === 'status' ? told(name) : name}</span>
            </button>
          )
        })}
        {scatter.value && (scatter.value.without ?? 0) > 0 && <span class="muted">{t('without', { n: scatter.value.without ?? 0 })}</span>}
        {scatter.value?.tiles && <span class="muted">{t('tiles')}</span>}
        {p.source.sampled && <span class="is-note">{t('sampled', { how: told(p.source.sampled) })}</span>}
      </div>
      {scatter.error && <Trouble error={scatter.error} again={scatter.again} />}
      <div ref={plotRef}>
        {scatter.value === null ? !scatter.error && <Later><div class="bone rq-plot" aria-busy="true" /></Later>
          : scatter.value.matched === 0 ? <Empty text={t(p.filter === '' ? 'noRequests' : 'noMatch')} />
            : bare(scatter.value) ? <Empty text={t('noneHas', { n: plain(count(scatter.value.matched)), figure: nameOf(y) })} />
            : (
              <Plot
                dots={scatter.value} from={p.from} to={scatter.value.to} log={log} figure={nameOf(y)} format={format} look={look} selected={p.selected} box={box}
                limit={limit ? { at: limit.limit, text: t('slo', { stat: limit.stat, limit: brief(duration(limit.limit)) }) } : null} onSelect={p.onSelect} onBox={setBox} describe={n => rows.current.get(n) ?? null}
              />
            )}
      </div>
      {box !== null && common.value && (
        <div class="rq-common" role="region" aria-label={t('common', { selected: common.value.selected, rest: common.value.rest })}>
          <div class="spread">
            <h3>{t('common', { selected: plain(count(common.value.selected)), rest: plain(count(common.value.rest)) })} · <span class="num">{elapsed(box.x0, true)} – {elapsed(box.x1, true)}</span>, {nameOf(y)} <span class="num">{plain(format(box.y0))} – {plain(format(box.y1))}</span></h3>
            <button type="button" class="button small no-print" onClick={() => setBox(null)}>{t('clear')}</button>
          </div>
          {common.value.bars.length === 0 ? <p class="muted">{t('nothing')}</p> : (
            <ol>
              {common.value.bars.slice(0, 12).map(b => {
                const term = termFor(b.field, b.value)
                return (
                  <li key={b.field + b.value}>
                    {term === null ? <span class="cut">{b.field} <strong>{b.value || '–'}</strong></span>
                      : <button type="button" class="plain cut" title={t('add', { field: b.field, value: b.value })} onClick={() => { setBox(null); p.onFilter(toggleTerm(p.filter, term)) }}><span class="muted">{b.field}</span> <strong>{b.value}</strong></button>}
                    <span class="rq-bars" aria-hidden="true"><i style={{ width: `${b.selected_share * 100}%` }} /><i style={{ width: `${b.rest_share * 100}%` }} /></span>
                    <span class="small right"><Num f={share(b.selected_share)} /><span class="visually-hidden"> {t('chosen')},</span> <span class="muted">·</span> <Num class="muted" f={share(b.rest_share)} /><span class="visually-hidden"> {t('others')}</span></span>
                  </li>
                )
              })}
            </ol>
          )}
          <p class="small muted row"><span class="row tight"><i class="swatch rq-sel" />{t('chosen')}</span><span class="row tight"><i class="swatch rq-rest" />{t('others')}</span><span>{t('inBox')}</span></p>
        </div>
      )}
      {box !== null && common.error && <Trouble error={common.error} again={common.again} />}
      <div class={'rq-body' + (p.selected !== null ? ' has-one' : '')}>
        <List
          source={p.source} query={bounds} sort={sort} onSort={s => setQuery({ sort: s === 't' ? null : s })} selected={p.selected}
          onSelect={p.onSelect} colour={r => index.get(r.workload) ?? 0} tick={tick} mover={mover}
          onCounts={(total, matched) => setCounts({ total, matched })}
          onRows={list => { if (rows.current.size > 20_000) rows.current.clear(); for (const r of list) rows.current.set(r.n, r) }}
        />
        {p.selected !== null && <OneRequest source={p.source} doc={p.doc} n={p.selected} tick={tick} onClose={() => p.onSelect(null)} onMove={by => mover.current?.(by)} />}
      </div>
    </div>
  )
}

/** The term of the filter that says what a bar says, or null where the language cannot. */
function termFor(field: string, value: string): string | null {
  if (value === '' || value.includes('"')) return null
  const term = `${field}:${/\s/.test(value) ? `"${value}"` : value}`
  if (parseFilter(term).errors.length === 0) return term
  const range = /^(\d+)\.\.(\d+)$/.exec(value)
  if (range !== null) {
    const both = `${field}>=${range[1]} ${field}<=${range[2]}`
    if (parseFilter(both).errors.length === 0) return both
  }
  return null
}

/** The explorer as a page of its own: all requests of the run. */
export default function RequestsPage({ path, query }: PageProps) {
  const n = Number(query.get('n'))
  const selected = query.has('n') && Number.isInteger(n) && n >= 0 ? n : null
  return (
    <PartOfRun
      id={path[0] ?? ''}
      of={(doc, source, tick) => (
        <Requests
          source={source} doc={doc} from={doc.span.from} to={doc.span.to} filter={query.get('q') ?? ''} onFilter={f => setQuery({ q: f, box: null })}
          selected={selected} onSelect={v => setQuery({ n: v === null ? null : String(v) })} live={doc.live} tick={tick}
        />
      )}
    />
  )
}
