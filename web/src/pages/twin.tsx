// The twin designer: a cluster that need not exist, and what its users would feel.

import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { api, ApiError, type Prediction, type RunDoc, HttpSource, type TwinCatalogue } from '../api'
import type { PageProps } from '../app'
import { count, duration, figure, plain } from '../format'
import { words } from '../i18n'
import { told } from '../i18n/told'
import { setQuery } from '../route'
import { Later, Switch, Trouble, useLoad, saying } from '../ui'
import { Chart, type ChartSeries } from './parts/chart'
import { loadParts } from './find-runs'
import { useRested } from './parts/size'
import { loadOf, stepsOf } from './step-figures'
import './twin.css'
import { askFor, type Design, designOf, linkOf, memoryParts, usual, type Wrong } from './twin-ask'

const t = words(
  {
    title: 'Twin', model: 'Model', gpu: 'Accelerator', tp: 'Tensor parallel', pp: 'Pipeline parallel', dp: 'Data parallel', router: 'Router', kvIn: 'Keys and values', kvUsual: 'as computed', same: 'Measured: {what}. It compares with the prediction only where the cluster and the lengths are the same.', ep: 'Expert parallel', replicas: 'Replicas', precision: 'Precision', engine: 'Engine', usual: 'as published', workload: 'Workload', lengths: 'lengths below', prompt: 'Prompt tokens', output: 'Output tokens', loads: 'Levels of load',
    by: 'Load', users: 'users', rates: 'requests/s', whole: 'A whole number from 1', badLoads: 'Numbers above 0, as 1, 2, 4 or 1..256', many: 'At most 32 levels', length: 'A number of tokens, or as uniform:100..900', overlay: 'Over it, a measured run', none: 'none', noSteps: 'That run has no figures of its load.',
    memory: 'Memory of one device', weights: 'weights', activations: 'activations', other: 'graphs and libraries', kv: 'keys and values', free: 'left free', holds: 'A replica holds {tokens} tokens.', gpus: 'Accelerators in all: {n}', predicted: 'predicted', measured: 'measured', took: 'predicted in {ms}',
    tokens: 'output tokens/s', ttft: 'ttft', tpot: 'tpot', e2e: 'e2e p95', refused: '{n} of the requests of some points did not fit and were refused.', reading: 'Predicting', notFit: 'This cannot serve', form: 'The cluster and its users', fix: 'Use {fix}',
  },
  {
    title: '数字孪生', model: '模型', gpu: '加速器', tp: '张量并行', pp: '流水线并行', dp: '数据并行', router: '路由', kvIn: 'KV 精度', kvUsual: '与计算相同', same: '实测：{what}。只有集群与长度相同时才能与预测相比。', ep: '专家并行', replicas: '副本数', precision: '精度', engine: '引擎', usual: '按发布精度', workload: '负载', lengths: '使用下方长度', prompt: '提示 token', output: '输出 token', loads: '负载级别',
    by: '负载方式', users: '用户', rates: '请求/s', whole: '从 1 起的整数', badLoads: '大于 0 的数，例如 1, 2, 4 或 1..256', many: '最多 32 级', length: 'token 数，或例如 uniform:100..900', overlay: '叠加一个实测运行', none: '无', noSteps: '该运行没有其负载的数据。',
    memory: '单个设备的显存', weights: '权重', activations: '激活', other: '图与库', kv: 'KV', free: '空闲', holds: '一个副本可容纳 {tokens} 个 token。', gpus: '加速器总数：{n}', predicted: '预测', measured: '实测', took: '预测耗时 {ms}',
    tokens: '输出 token/s', ttft: 'ttft', tpot: 'tpot', e2e: 'e2e p95', refused: '部分点中有 {n} 个请求放不下而被拒绝。', reading: '正在预测', notFit: '无法提供服务', form: '集群与用户', fix: '改用 {fix}',
  },
)

const say: Record<NonNullable<Wrong[keyof Design]>, () => string> = { whole: () => t('whole'), loads: () => t('badLoads'), many: () => t('many'), length: () => t('length') }

/** Fields of the server's answer by the name that they have in the form. */
const fieldOf: Record<string, keyof Design> = { model: 'model', gpu: 'gpu', gpus: 'tp', tp: 'tp', pp: 'pp', dp: 'dp', ep: 'ep', router: 'router', kv_fp8: 'kv', replicas: 'replicas', precision: 'precision', engine: 'engine', workload: 'workload', prompt_tokens: 'prompt', output_tokens: 'output', users: 'loads', rates: 'loads', 'users.prompt-tokens': 'prompt', 'users.output-tokens': 'output' }

export default function Twin({ query }: PageProps) {
  const [design, setDesign] = useState<Design>(() => designOf(query))
  const catalogue = useLoad<TwinCatalogue>(s => api.twinCatalogue(s), [])
  const library = useLoad(s => api.workloads({}, s), [])
  const runs = useLoad(s => api.runs(s), [])
  const over = query.get('run') ?? ''
  const measured = useLoad<RunDoc | null>(async s => (over === '' ? null : new HttpSource(over).doc(s)), [over])
  const key = JSON.stringify(design)
  const rested = useRested(key, 200)
  const asked = askFor(design)
  const wrong = 'wrong' in asked ? asked.wrong : {}
  const [answer, setAnswer] = useState<Prediction | null>(null)
  const prediction = useLoad<Prediction | null>(async s => {
    const a = askFor(JSON.parse(rested) as Design)
    return 'ask' in a ? api.predict(a.ask, s) : null
  }, [rested])
  // The last answer stays while a field is wrong.
  useEffect(() => { if (prediction.value !== null) setAnswer(prediction.value) }, [prediction.value])
  const change = (part: Partial<Design>) => {
    const next = { ...design, ...part }
    setDesign(next)
    setQuery(linkOf(next))
  }
  const refusedField = prediction.error instanceof ApiError ? fieldOf[prediction.error.field] : undefined
  const error = (name: keyof Design): string => {
    const w = wrong[name]
    if (w !== undefined) return say[w]()
    if (refusedField === name && prediction.error instanceof ApiError) return saying(prediction.error) + (prediction.error.fix ? `. ${t('fix', { fix: told(prediction.error.fix) })}` : '')
    return ''
  }
  const gpu = catalogue.value?.gpus.find(g => g.name === design.gpu)
  const old = key !== rested || prediction.loading || 'wrong' in asked || prediction.error !== null
  return (
    <div class="page">
      <div class="page-head">
        <h1>{t('title')}</h1>
        {answer?.cluster && <span class="muted">{told(answer.cluster)}</span>}
        {answer && <span class="small muted num" role="status">{t('took', { ms: plain(duration(answer.took_ms)) })}</span>}
      </div>
      {catalogue.error && <Trouble error={catalogue.error} again={catalogue.again} />}
      <div class="tw">
        <form class="tw-form no-print" aria-label={t('form')} onSubmit={e => e.preventDefault()}>
          <Field label={t('model')} wide error={error('model')}>
            {id => <Select id={id} value={design.model} options={(catalogue.value?.models ?? []).map(m => [m.name, `${m.name} · ${plain(count(m.params))}`])} onChange={v => change({ model: v })} bad={error('model') !== ''} />}
          </Field>
          <Field label={t('gpu')} wide error={error('gpu')}>
            {id => <Select id={id} value={design.gpu} options={(catalogue.value?.gpus ?? []).map(g => [g.name, `${g.name} · ${g.memory_gib} GiB`])} onChange={v => change({ gpu: v })} bad={error('gpu') !== ''} />}
          </Field>
          {(['tp', 'pp', 'dp', 'ep', 'replicas'] as const).map(name => (
            <Field key={name} label={t(name)} error={error(name)}>
              {id => <input id={id} class="field" type="number" min={1} max={100000} step={1} value={design[name]} aria-invalid={error(name) !== ''} onInput={e => change({ [name]: e.currentTarget.value })} />}
            </Field>
          ))}
          <Field label={t('router')} error={error('router')}>
            {id => <Select id={id} value={design.router} options={(catalogue.value?.routers ?? [usual.router]).map(r => [r, r] as [string, string])} onChange={v => change({ router: v })} bad={error('router') !== ''} />}
          </Field>
          <Field label={t('precision')} error={error('precision')}>
            {id => <Select id={id} value={design.precision} options={[['', t('usual')], ...(catalogue.value?.precisions ?? []).map(p => [p, p] as [string, string])]} onChange={v => change({ precision: v })} bad={error('precision') !== ''} />}
          </Field>
          <Field label={t('kvIn')} error={error('kv')}>
            {id => <Select id={id} value={design.kv} options={[['', t('kvUsual')], ['fp8', 'fp8']]} onChange={v => change({ kv: v })} bad={error('kv') !== ''} />}
          </Field>
          <Field label={t('engine')} error={error('engine')}>
            {id => <Select id={id} value={design.engine} options={(catalogue.value?.engines ?? []).map(e => [e.name, e.name])} onChange={v => change({ engine: v })} bad={error('engine') !== ''} />}
          </Field>
          <Field label={t('workload')} wide error={error('workload')}>
            {id => <Select id={id} value={design.workload} options={[['', t('lengths')], ...(library.value ?? []).map(w => [w.name, w.name] as [string, string])]} onChange={v => change({ workload: v })} bad={error('workload') !== ''} />}
          </Field>
          {design.workload === '' && (['prompt', 'output'] as const).map(name => (
            <Field key={name} label={t(name)} error={error(name)}>
              {id => <input id={id} class="field" value={design[name]} spellcheck={false} aria-invalid={error(name) !== ''} onInput={e => change({ [name]: e.currentTarget.value })} />}
            </Field>
          ))}
          <div class="wide"><Switch label={t('by')} value={design.by} options={[['users', t('users')], ['rates', t('rates')]]} onChange={v => change({ by: v })} /></div>
          <Field label={t('loads')} wide error={error('loads')}>
            {id => <input id={id} class="field" value={design.loads} spellcheck={false} aria-invalid={error('loads') !== ''} onInput={e => change({ loads: e.currentTarget.value })} />}
          </Field>
          <Field label={t('overlay')} wide error={measured.value && runPoints(measured.value, design.by).length === 0 ? t('noSteps') : ''}>
            {id => <Select id={id} value={over} options={[['', t('none')], ...(runs.value ?? []).filter(r => !r.live).map(r => [r.id, r.name || r.id] as [string, string])]} onChange={v => setQuery({ run: v })} bad={false} />}
          </Field>
          {measured.value && runPoints(measured.value, design.by).length > 0 && <p class="small muted wide">{t('same', { what: [measured.value.run.model, loadParts(measured.value.run.load, measured.value.run.workloads).map(p => told(p)).join(', '), measured.value.run.workloads.length === 1 ? measured.value.run.workloads[0] : ''].filter(s => s !== '').join(' · ') })}</p>}
          <p class="small muted wide">{t('gpus', { n: (Number(design.tp) || 0) * (Number(design.pp) || 0) * (Number(design.dp) || 0) * (Number(design.replicas) || 0) })}</p>
        </form>
        <div class="tw-out">
          {prediction.error && refusedField === undefined && <Trouble error={prediction.error} again={prediction.again} />}
          {answer === null ? prediction.loading && !('wrong' in asked) && <Later><p class="muted">{t('reading')}</p></Later> : (
            <div class={'tw-out' + (old ? ' tw-old' : '')} aria-busy={prediction.loading}>
              {!answer.fits && <div class="trouble" role="alert"><strong>{t('notFit')}</strong><span>{told(answer.error)}</span></div>}
              {answer.memory && <Memory m={answer.memory} capacity={(gpu?.memory_gib ?? 0) * 2 ** 30} />}
              {answer.fits && <Curves p={answer} over={measured.value} by={design.by} />}
              {answer.left && <p class="remark">{told(answer.left)}</p>}
            </div>
          )}
        </div>
      </div>
    </div>
  )
}

function Field({ label, wide, error, children }: { label: string; wide?: boolean; error: string; children: (id: string) => ComponentChildren }) {
  const id = `tw-${label.replace(/\W+/g, '-')}-${[...label].reduce((n, c) => (n * 31 + c.charCodeAt(0)) % 99991, 7)}`
  return (
    <div class={wide ? 'wide' : ''}>
      <label class="stack" for={id}>{label}{children(id)}</label>
      {error && <p class="small say" role="status">{error}</p>}
    </div>
  )
}

function Select({ id, value, options, onChange, bad }: { id: string; value: string; options: [string, string][]; onChange: (v: string) => void; bad: boolean }) {
  const known = options.some(([v]) => v === value)
  return (
    <select id={id} class="field" value={value} aria-invalid={bad} onChange={e => onChange(e.currentTarget.value)}>
      {!known && <option value={value}>{value}</option>}
      {options.map(([v, text]) => <option key={v} value={v}>{text}</option>)}
    </select>
  )
}

function Memory({ m, capacity }: { m: NonNullable<Prediction['memory']>; capacity: number }) {
  const parts = memoryParts(m, capacity)
  return (
    <section class="section" aria-label={t('memory')}>
      <h2>{t('memory')}</h2>
      <div class="tw-bar" role="img" aria-label={parts.map(p => `${t(p.name)} ${plain(figure(p.bytes, 'bytes'))}`).join(', ')}>
        {parts.map(p => <span key={p.name} class={`tw-${p.name}`} style={{ width: `${p.share * 100}%` }} />)}
      </div>
      <ul class="tw-keys small">
        {parts.map(p => <li key={p.name}><span class={`swatch tw-${p.name}`} aria-hidden="true" /><span>{t(p.name)}</span> <span class="num muted">{plain(figure(p.bytes, 'bytes'))} · {plain(figure(p.share, 'share'))}</span></li>)}
      </ul>
      <p class="small muted">{t('holds', { tokens: plain(count(m.kv_tokens)) })}</p>
    </section>
  )
}

interface Measured { load: number; output: number | null; of: (figure: string, stat: 'p50' | 'p95') => number | null }

/** The levels of a measured run: its steps, or the one level it had. */
function runPoints(doc: RunDoc, by: 'users' | 'rates'): Measured[] {
  return stepsOf(doc.summary).flatMap(s => {
    const l = loadOf(s)
    if (l === null || (l.by === 'users') !== (by === 'users')) return []
    return [{ load: l.n, output: s.outputPerS, of: (f, stat) => s.latency(by === 'rates' && f !== 'tpot' ? `${f}_from_schedule` : f)[stat] }]
  })
}

function Curves({ p, over, by }: { p: Prediction; over: RunDoc | null; by: 'users' | 'rates' }) {
  const points = over === null ? [] : runPoints(over, by)
  const x = { name: t(by), log: true, format: (v: number) => count(Number(v.toPrecision(4))) }
  const name = over?.run.name || over?.run.id || ''
  const curve = (i: number, text: string, of: (q: Prediction['points'][number]) => number | null): ChartSeries => ({ name: `${text} ${t('predicted')}`.trim(), i, line: true, points: p.points.map(q => ({ x: q.load, y: of(q) })) })
  const real = (i: number, text: string, of: (m: Measured) => number | null): ChartSeries[] => (points.length === 0 ? [] : [{ name: `${text} ${t('measured')}: ${name}`.trim(), i, line: true, dashed: true, points: points.map(m => ({ x: m.load, y: of(m) })) }])
  const refused = p.points.reduce((n, q) => n + q.refused, 0)
  return (
    <>
      <div class="tw-charts">
        <Chart title={t('tokens')} x={x} y={{ name: t('tokens'), format: v => figure(v, 'tokens', true) }} series={[curve(0, '', q => q.output_per_s), ...real(3, '', m => m.output)]} />
        <Chart title={t('ttft')} x={x} y={{ name: t('ttft'), log: true, format: v => duration(v) }} series={[curve(0, 'p50', q => q.ttft_p50_ms), curve(1, 'p95', q => q.ttft_p95_ms), ...real(3, 'p50', m => m.of('ttft', 'p50')), ...real(6, 'p95', m => m.of('ttft', 'p95'))]} />
        <Chart title={t('tpot')} x={x} y={{ name: t('tpot'), format: v => duration(v) }} series={[curve(0, 'p50', q => q.tpot_p50_ms), curve(1, 'p95', q => q.tpot_p95_ms), ...real(3, 'p50', m => m.of('tpot', 'p50')), ...real(6, 'p95', m => m.of('tpot', 'p95'))]} />
        <Chart title={t('e2e')} x={x} y={{ name: t('e2e'), log: true, format: v => duration(v) }} series={[curve(1, 'p95', q => q.e2e_p95_ms), ...real(6, 'p95', m => m.of('e2e', 'p95'))]} />
      </div>
      {refused > 0 && <p class="remark">{t('refused', { n: plain(count(refused)) })}</p>}
    </>
  )
}
