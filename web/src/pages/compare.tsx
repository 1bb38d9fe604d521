// Runs against each other: overlaid on one relative time, step by step, and figure by figure
// with what can be said for certain.

import { useState } from 'preact/hooks'
import { api, type Comparison, HttpSource, type RunDoc, type RunRow, type Series } from '../api'
import type { PageProps } from '../app'
import { count, elapsed, figure, type Figure, plain } from '../format'
import { words } from '../i18n'
import { told } from '../i18n/told'
import { setQuery } from '../route'
import { Empty, Later, Num, Switch, Trouble, useLoad } from '../ui'
import './compare.css'
import { byChange, type Said, said } from './difference'
import { Chart, type ChartSeries } from './parts/chart'
import { Key } from './parts/marker'
import { StepCurves } from './steps'
import { stepsOf } from './step-figures'

const t = words(
  {
    title: 'Compare', add: 'Add a run', take: 'Leave {name} out', base: 'base', makeBase: 'Make {name} the base', two: 'Choose two or more runs. The first is the base that the others are held against.', noRuns: 'There is no finished run to compare. Two of them:',
    overlay: 'Over time', from: 'Time from', start: 'start', steady: 'steady window', figure: 'Figure', stat: 'Percentile', since: 'time', differences: 'Differences', order: 'Order', largest: 'clear ones first', plainOrder: 'as in the report', metric: 'Figure', against: 'against {name}', steps: 'Steps',
    all: 'All {n} figures', fewer: 'Fewer', same: 'same', better: 'better', worse: 'worse', differs: 'differs', unclear: 'not clear', unknown: 'no interval', baseSays: 'A difference is clear where the 95 % intervals lie apart. Without intervals nothing is said.', reading: 'Reading the runs', noData: 'This figure is in none of the runs.', median: 'median of {n} sources',
  },
  {
    title: '对比', add: '添加运行', take: '移除 {name}', base: '基准', makeBase: '将 {name} 设为基准', two: '请选择两个或更多运行。第一个是其余运行的比较基准。', noRuns: '没有可对比的已完成运行。例如运行两次：',
    overlay: '随时间变化', from: '时间起点', start: '开始', steady: '稳定窗口', figure: '指标', stat: '百分位', since: '时间', differences: '差异', order: '排序', largest: '明确差异在前', plainOrder: '按报告顺序', metric: '指标', against: '相对 {name}', steps: '负载阶梯',
    all: '全部 {n} 个指标', fewer: '收起', same: '相同', better: '更好', worse: '更差', differs: '不同', unclear: '不明确', unknown: '无区间', baseSays: '95 % 区间互不重叠时差异才算明确。没有区间则不下结论。', reading: '正在读取运行', noData: '这些运行都没有此指标。', median: '{n} 个来源的中位数',
  },
)

const latencies = ['ttft', 'tpot', 'itl', 'e2e'] as const
const stats = ['p50', 'p95', 'p99'] as const

interface Side { doc: RunDoc; series: Series[]; source: HttpSource }

export default function Compare({ query }: PageProps) {
  const ids = (query.get('runs') ?? '').split(',').filter(Boolean).map(s => { try { return decodeURIComponent(s) } catch { return s } })
  const list = useLoad(s => api.runs(s), [])
  const comparison = useLoad(async s => (ids.length < 2 ? null : api.compare(ids, s)), [ids.join(',')])
  const sides = useLoad(s => Promise.all(ids.map(async id => {
    const source = new HttpSource(id)
    const [doc, series] = await Promise.all([source.doc(s), source.series(s).catch(() => ({ series: [], missing: [] }))])
    return { doc, series: series.series, source } satisfies Side
  })), [ids.join(',')])
  const choose = (next: string[]) => setQuery({ runs: next.map(encodeURIComponent).join(',') }, false)
  const rest = (list.value ?? []).filter(r => !ids.includes(r.id) && !r.live)
  const name = (id: string) => list.value?.find(r => r.id === id)?.name || id
  return (
    <div class="page">
      <div class="page-head"><h1>{t('title')}</h1></div>
      <div class="cp-runs">
        {ids.map((id, i) => (
          <span key={id} class="cp-run">
            <Key i={i} /><a class="cut" href={`/runs/${encodeURIComponent(id)}`} title={id}>{name(id)}</a>
            {i === 0 ? <span class="small muted">{t('base')}</span> : <button type="button" class="button small no-print" aria-label={t('makeBase', { name: name(id) })} onClick={() => choose([id, ...ids.filter(x => x !== id)])}>{t('base')}</button>}
            <button type="button" class="button small no-print" aria-label={t('take', { name: name(id) })} onClick={() => choose(ids.filter(x => x !== id))}>×</button>
          </span>
        ))}
        {rest.length > 0 && ids.length < 8 && (
          <select class="field no-print cp-figure" aria-label={t('add')} value="" onChange={e => { if (e.currentTarget.value) choose([...ids, e.currentTarget.value]) }}>
            <option value="">{t('add')}</option>
            {rest.map(r => <option key={r.id} value={r.id}>{r.name ? `${r.name} · ${r.id}` : r.id}</option>)}
          </select>
        )}
      </div>
      {list.value !== null && ids.length < 2 && (list.value.filter(r => !r.live).length === 0 ? <Empty text={t('noRuns')} type="plimsoll demo" /> : <Empty text={t('two')} />)}
      {[list, comparison, sides].map((l, i) => l.error && <Trouble key={i} error={l.error} again={l.again} />)}
      {ids.length >= 2 && comparison.value === null && !comparison.error && <Later><p class="muted">{t('reading')}</p></Later>}
      {ids.length >= 2 && comparison.value && <Differences of={comparison.value} />}
      {ids.length >= 1 && sides.value && sides.value.length > 0 && <Overlay sides={sides.value} query={query} />}
      {sides.value && sides.value.some(s => stepsOf(s.doc.summary).length > 1) && (
        <section class="section" aria-label={t('steps')}><h2>{t('steps')}</h2><StepCurves docs={sides.value.map(s => s.doc)} /></section>
      )}
    </div>
  )
}

/** The first steady window's beginning, where there is one. */
const steadyFrom = (doc: RunDoc): number => doc.phases.find(p => p.name === 'steady')?.from ?? 0

function Overlay({ sides, query }: { sides: Side[]; query: URLSearchParams }) {
  const signals = new Map<string, Series>()
  for (const s of sides) for (const one of s.series) if (one.workload === '') signals.set(`${one.signal}/${one.stat}`, signals.get(`${one.signal}/${one.stat}`) ?? one)
  const wanted = query.get('figure') ?? 'ttft'
  const of = (latencies as readonly string[]).includes(wanted) || signals.has(wanted) ? wanted : 'ttft'
  const signal = signals.get(of)
  const stat = stats.find(s => s === query.get('stat')) ?? 'p95'
  const steady = query.get('from') === 'steady'
  const data = useLoad(s => Promise.all(sides.map(async ({ doc, source, series }) => {
    const from = steady ? steadyFrom(doc) : 0
    const { to } = doc.span
    if (signal === undefined) {
      const g = await source.bands([of], '', from, to, 300, s)
      return { from: g.from - from, step: g.step_ms, values: g.figures[of]?.[stat] ?? [], members: 1 }
    }
    const own = series.filter(x => x.signal === signal.signal && x.stat === signal.stat && x.workload === '')
    if (own.length === 0) return { from: 0, step: 1, values: [], members: 0 }
    if (own.length === 1) {
      const g = await source.data([own[0]!.id], from, to, 300, s)
      return { from: g.from - from, step: g.step_ms, values: g.series[own[0]!.id]?.mean ?? [], members: 1 }
    }
    const g = await source.envelope(signal.signal, signal.stat, from, to, 300, s)
    return { from: g.from - from, step: g.step_ms, values: g.median, members: g.members }
  })), [sides, of, stat, steady])
  const format = (v: number): Figure => (signal === undefined ? figure(v, 'ms') : figure(v, signal.unit))
  const series: ChartSeries[] = (data.value ?? []).map((d, i) => ({
    name: (sides[i]!.doc.run.name || sides[i]!.doc.run.id) + (d.members > 1 ? ` (${t('median', { n: d.members })})` : ''), i, line: true, bare: true,
    points: d.values.map((y, j) => ({ x: d.from + (j + 0.5) * d.step, y })),
  }))
  return (
    <section class="section" aria-label={t('overlay')}>
      <h2>{t('overlay')}</h2>
      <div class="row no-print">
        <label class="row tight small muted cp-figure">{t('figure')}
          <select class="field" value={of} onChange={e => setQuery({ figure: e.currentTarget.value })}>
            <optgroup label={t('stat')}>{latencies.map(l => <option key={l} value={l}>{l}</option>)}</optgroup>
            {[...signals].map(([k, s]) => <option key={k} value={k}>{told(s.title)}{s.stat !== 'value' && s.stat !== 'rate' ? ` ${s.stat}` : ''}</option>)}
          </select>
        </label>
        {signal === undefined && <Switch label={t('stat')} value={stat} options={stats.map(s => [s, s] as const)} onChange={v => setQuery({ stat: v })} />}
        <Switch label={t('from')} value={steady ? 'steady' : 'start'} options={[['start', t('start')], ['steady', t('steady')]]} onChange={v => setQuery({ from: v === 'steady' ? v : null })} />
      </div>
      {data.error && <Trouble error={data.error} again={data.again} />}
      {data.value && (series.every(s => s.points.length === 0) ? <p class="muted">{t('noData')}</p> : (
        <Chart
          title={`${told(signal?.title ?? of)}${signal === undefined ? ` ${stat}` : ''}`} series={series} height={280}
          x={{ name: t('since'), format: v => ({ text: elapsed(v), unit: '' }) }} y={{ name: signal ? told(signal.title) : `${of} ${stat}`, format }}
        />
      ))}
    </section>
  )
}

/** How many rows are shown before all are asked for. */
const few = 16

function Differences({ of }: { of: Comparison }) {
  const [largest, setLargest] = useState(true)
  const [all, setAll] = useState(false)
  const ordered = largest ? byChange(of.rows) : of.rows
  const rows = all ? ordered : ordered.slice(0, few)
  const name = (r: RunRow) => r.name || r.id
  return (
    <section class="section" aria-label={t('differences')}>
      <div class="row">
        <h2>{t('differences')}</h2>
        <span class="no-print"><Switch label={t('order')} value={largest ? 'largest' : 'plainOrder'} options={[['largest', t('largest')], ['plainOrder', t('plainOrder')]]} onChange={v => setLargest(v === 'largest')} /></span>
      </div>
      <div class="scroll-x" tabIndex={0}>
        <table class="table cp-table" aria-label={t('differences')}>
          <thead>
            <tr>
              <th scope="col">{t('metric')}</th>
              {of.runs.map((r, i) => <th key={r.id} scope="col" class="num"><Key i={i} /> {name(r)}{i > 0 && of.runs[0] && <div class="faint">{t('against', { name: name(of.runs[0]) })}</div>}</th>)}
            </tr>
          </thead>
          <tbody>
            {rows.map(row => (
              <tr key={row.metric}>
                <th scope="row">{told(row.metric)}</th>
                {of.runs.map((r, i) => {
                  const v = row.values[i] ?? null
                  const ci = row.ci[i] ?? null
                  const change = row.change[i] ?? null
                  return (
                    <td key={r.id} class="num">
                      <div class={'cp-cell' + (i > 0 ? ' cp-held' : '')}>
                        {i > 0 && <span>{v !== null && <Change says={said(row, i)} change={change} />}</span>}
                        <span class="cp-ci">{ci && <>{plain(valueOf(ci[0], row.unit))} – {plain(valueOf(ci[1], row.unit))}</>}</span>
                        <Num class="cp-value" f={valueOf(v, row.unit)} />
                      </div>
                    </td>
                  )
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {ordered.length > few && <span class="no-print"><button type="button" class="button small" aria-expanded={all} onClick={() => setAll(!all)}>{all ? t('fewer') : t('all', { n: ordered.length })}</button></span>}
      <p class="small muted">{t('baseSays')}</p>
    </section>
  )
}

function valueOf(v: number | null, unit: string): Figure {
  if (unit === 'rps' || unit === '1/s') return figure(v, 'things', true)
  if (unit === 'J/token') { const f = figure(v, 'J'); return { ...f, unit: f.unit && `${f.unit}/token` } }
  return unit === '' ? count(v) : figure(v, unit)
}

/** The change and what can be said of it; what is clear stands out. Red is for failures and missed limits alone. */
function Change({ says, change }: { says: Said; change: number | null }) {
  const weight = says === 'worse' || says === 'better' ? 'cp-clear' : 'muted'
  const sign = change === null ? '' : `${change > 0 ? '+' : change < 0 ? '−' : '±'}${plain(figure(Math.abs(change), 'share'))}`
  return <span class={`small ${weight}`}>{sign} {says !== 'base' && t(says)}</span>
}
