// The library of workloads: who the users are, which part of the stack they load, and shapes
// laid over each other.

import type { TwinCatalogue, WorkloadDoc, WorkloadRow } from '../api'
import { api } from '../api'
import type { PageProps } from '../app'
import { count, duration, figure, plain, share, type Figure } from '../format'
import { words } from '../i18n'
import { told } from '../i18n/told'
import { setQuery } from '../route'
import { Empty, Later, Num, Trouble, useLoad } from '../ui'
import { Key, Mark } from './parts/marker'
import { anchor, outline, place } from './radar'
import './workloads.css'

const t = words(
  {
    title: 'Workloads', vertical: 'Users of an industry', probe: 'Probes of one part of the stack', pick: 'Choose workloads to see their shapes; two or more are laid over each other.', type: 'plimsoll workloads show legal/contract-review', stresses: 'Stresses {parts}.', model: 'For model', usual: 'usual',
    shape: 'Shape', axes: 'Each axis goes from a plain question (the centre) to what loads that part of the stack most, on a logarithmic scale. Beyond the dashed line, ten times a plain question, a part counts as stressed.', axis: 'Axis', compute: 'compute', bandwidth: 'bandwidth', kv: 'kv memory', network: 'network', scheduler: 'scheduler',
    facts: 'Facts', fact: 'Of its distributions', mean: 'mean', p95: 'p95', perSession: 'Requests a session', prompt: 'Prompt tokens', fresh: 'of them new', output: 'Output tokens', context: 'Context of a session', reuse: 'Reuse of prefixes', kvBytes: 'Keys and values a session', wire: 'On the wire a request', flops: 'Prefill a request', decode: 'Moved by decoding a request', ttft: 'Limit of ttft', tpot: 'Limit of tpot',
    file: 'The file', predict: 'Predict it on a twin', run: 'Run it', drop: 'Choose none', reading: 'Reading the library', radar: 'Radar of {names}',
  },
  {
    title: '负载库', vertical: '行业用户', probe: '针对系统单个部分的探针', pick: '选择负载查看其形状；选择多个可叠加对比。', type: 'plimsoll workloads show legal/contract-review', stresses: '主要压测{parts}。', model: '模型', usual: '默认',
    shape: '形状', axes: '每根轴从普通提问（中心）到对该部分压力最大处，采用对数刻度。虚线为普通提问的十倍，超出即算受压。', axis: '轴', compute: '计算', bandwidth: '带宽', kv: 'KV 显存', network: '网络', scheduler: '调度',
    facts: '事实', fact: '由其分布得出', mean: '平均', p95: 'p95', perSession: '每会话请求数', prompt: '提示 token', fresh: '其中新增', output: '输出 token', context: '会话上下文', reuse: '前缀复用', kvBytes: '每会话 KV', wire: '每请求网络字节', flops: '每请求预填充', decode: '每请求解码搬运', ttft: 'ttft 上限', tpot: 'tpot 上限',
    file: '文件', predict: '用孪生预测', run: '运行', drop: '取消选择', reading: '正在读取负载库', radar: '{names} 的雷达图',
  },
)

const parts: Record<string, () => string> = { compute: () => t('compute'), bandwidth: () => t('bandwidth'), kv: () => t('kv'), network: () => t('network'), scheduler: () => t('scheduler') }
const part = (name: string): string => parts[name]?.() ?? name

const most = 6

export default function Workloads({ query }: PageProps) {
  const list = useLoad(s => api.workloads({}, s), [])
  const catalogue = useLoad<TwinCatalogue>(s => api.twinCatalogue(s), [])
  const chosen = (query.get('w') ?? '').split(',').filter(Boolean)
  const model = query.get('model') ?? ''
  const docs = useLoad(s => Promise.all(chosen.map(name => {
    const [family, rest] = [name.slice(0, name.indexOf('/')), name.slice(name.indexOf('/') + 1)]
    return api.workload(family, rest, model || undefined, s)
  })), [chosen.join(','), model])
  const toggle = (name: string) => {
    const next = chosen.includes(name) ? chosen.filter(n => n !== name) : [...chosen, name].slice(-most)
    setQuery({ w: next.join(',') })
  }
  return (
    <div class="page wl-page">
      <div class="page-head">
        <h1>{t('title')}</h1>
        <label class="row tight small muted no-print">{t('model')}
          <select class="field" value={model} onChange={e => setQuery({ model: e.currentTarget.value })}>
            <option value="">{t('usual')}</option>
            {(catalogue.value?.models ?? []).map(m => <option key={m.name} value={m.name}>{m.name}</option>)}
          </select>
        </label>
        {chosen.length > 0 && <button type="button" class="button small no-print" onClick={() => setQuery({ w: null })}>{t('drop')}</button>}
      </div>
      {list.error && <Trouble error={list.error} again={list.again} />}
      {list.value === null ? !list.error && <Later><p class="muted">{t('reading')}</p></Later> : (
        <div class="wl">
          <div class="wl-list">
            {(['vertical', 'probe'] as const).map(kind => (
              <section key={kind} aria-label={t(kind)}>
                <h2>{t(kind)}</h2>
                <ul>{list.value!.filter(w => w.kind === kind).map(w => <Row key={w.name} w={w} at={chosen.indexOf(w.name)} toggle={() => toggle(w.name)} />)}</ul>
              </section>
            ))}
          </div>
          <div class={'wl-shape' + (chosen.length > 0 ? ' is-chosen' : '')}>
            {docs.error && <Trouble error={docs.error} again={docs.again} />}
            {chosen.length === 0 ? <Empty text={t('pick')} type={t('type')} /> : docs.value && docs.value.length > 0 && <Shapes docs={docs.value} />}
          </div>
        </div>
      )}
    </div>
  )
}

function Row({ w, at, toggle }: { w: WorkloadRow; at: number; toggle: () => void }) {
  return (
    <li class={at >= 0 ? 'is-on' : ''}>
      <input type="checkbox" id={`wl-${w.name}`} checked={at >= 0} onChange={toggle} />
      <label for={`wl-${w.name}`}>
        <span class="row tight">{at >= 0 && <Key i={at} />}<strong>{w.name}</strong></span>
        <p>{told(w.title)} {w.stresses.length > 0 && t('stresses', { parts: w.stresses.map(part).join(', ') })}</p>
      </label>
    </li>
  )
}

/** The share from which on a part counts as stressed, as the library has it: ten times a plain question. */
const stressed = 1 / 3

const size = 400
const centre = { x: 260, y: 205 }
const radius = 150

function Shapes({ docs }: { docs: WorkloadDoc[] }) {
  const axes = docs[0]!.shape.axes.map(a => a.name)
  const shareOf = (d: WorkloadDoc, name: string): number | null => d.shape.axes.find(a => a.name === name)?.share ?? null
  const said = docs.map(d => `${d.name}: ${axes.map(a => `${part(a)} ${plain(share(shareOf(d, a)))}`).join(', ')}`).join('; ')
  return (
    <>
      <section class="section" aria-label={t('shape')}>
        <h2>{t('shape')}</h2>
        <svg class="wl-radar" viewBox={`0 0 520 ${size}`} role="img" aria-label={`${t('radar', { names: docs.map(d => d.name).join(', ') })}. ${said}`}>
          {[0.25, 0.5, 0.75, 1].map(level => <polygon key={level} class="wl-ring" points={outline(axes.map(() => level), centre.x, centre.y, radius)} />)}
          <polygon class="wl-ring wl-stressed" points={outline(axes.map(() => stressed), centre.x, centre.y, radius)} />
          {axes.map((a, i) => {
            const tip = place(i, axes.length, 1, centre.x, centre.y, radius)
            const label = place(i, axes.length, 1, centre.x, centre.y, radius + 14)
            return <g key={a}><line class="wl-spoke" x1={centre.x} y1={centre.y} x2={tip.x} y2={tip.y} /><text class="wl-axis" x={label.x} y={label.y + 4} text-anchor={anchor(i, axes.length)}>{part(a)}</text></g>
          })}
          {docs.map((d, i) => (
            <g key={d.name} class={`w${i % 8}`}>
              <polygon class="wl-out" points={outline(axes.map(a => shareOf(d, a)), centre.x, centre.y, radius)} />
              {axes.map((a, j) => { const p = place(j, axes.length, shareOf(d, a) ?? 0, centre.x, centre.y, radius); return <Mark key={a} i={i} x={p.x} y={p.y} r={4} /> })}
            </g>
          ))}
          
        </svg>
        <p class="small muted">{t('axes')}</p>
        <div class="scroll-x" tabIndex={0}>
          <table class="table" aria-label={t('shape')}>
            <thead><tr><th scope="col">{t('axis')}</th>{docs.map((d, i) => <th key={d.name} scope="col" class="num"><Key i={i} /> {d.name}</th>)}</tr></thead>
            <tbody>
              {axes.map(name => (
                <tr key={name}>
                  <th scope="row" title={told(docs[0]!.shape.axes.find(a => a.name === name)?.unit ?? '')}>{part(name)}</th>
                  {docs.map(d => { const a = d.shape.axes.find(x => x.name === name); return <td key={d.name} class="num"><Num f={share(a?.share ?? null)} />{a?.text && <div class="small muted">{told(a.text)}</div>}</td> })}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <section class="section" aria-label={t('facts')}>
        <h2>{t('facts')}</h2>
        <div class="scroll-x" tabIndex={0}><Facts docs={docs} /></div>
      </section>
      {docs.map((d, i) => (
        <section key={d.name} class="section" aria-label={d.name}>
          <div class="spread">
            <h2><Key i={i} /> {d.name}</h2>
            <span class="row tight no-print"><a class="button small" href={`/twin?workload=${encodeURIComponent(d.name)}`}>{t('predict')}</a><a class="button small" href={`/scenarios?workload=${encodeURIComponent(d.name)}`}>{t('run')}</a></span>
          </div>
          <details open={docs.length === 1}><summary class="small muted">{t('file')}</summary><div class="wl-yaml" tabIndex={0}><pre>{d.yaml}</pre></div></details>
        </section>
      ))}
    </>
  )
}

/** The rows of facts: what they are called, where they are, and how they are written. */
const rows: { name: Parameters<typeof t>[0]; key: string; write: (v: number) => Figure }[] = [
  { name: 'perSession', key: 'requests_per_session', write: v => count(Number(v.toPrecision(3))) },
  { name: 'prompt', key: 'prompt_tokens', write: v => count(Math.round(v)) },
  { name: 'fresh', key: 'new_tokens', write: v => count(Math.round(v)) },
  { name: 'output', key: 'output_tokens', write: v => count(Math.round(v)) },
  { name: 'context', key: 'session_context_tokens', write: v => count(Math.round(v)) },
  { name: 'reuse', key: 'reuse', write: v => share(v) },
  { name: 'kvBytes', key: 'kv_bytes', write: v => figure(v, 'bytes') },
  { name: 'wire', key: 'wire_bytes', write: v => figure(v, 'bytes') },
  { name: 'flops', key: 'prefill_flops', write: v => figure(v, 'FLOP') },
  { name: 'decode', key: 'decode_bytes', write: v => figure(v, 'bytes') },
  { name: 'ttft', key: 'ttft_limit_s', write: v => duration(v > 0 ? v * 1000 : null) },
  { name: 'tpot', key: 'tpot_limit_s', write: v => duration(v > 0 ? v * 1000 : null) },
]

function Facts({ docs }: { docs: WorkloadDoc[] }) {
  const mean = (d: WorkloadDoc, key: string): { mean: number | null; p95: number | null } => {
    const v = d.facts[key]
    if (typeof v === 'number') return { mean: v, p95: null }
    const o = typeof v === 'object' && v !== null ? (v as Record<string, unknown>) : {}
    return { mean: typeof o.mean === 'number' ? o.mean : null, p95: typeof o.p95 === 'number' ? o.p95 : null }
  }
  return (
    <table class="table" aria-label={t('facts')}>
      <thead><tr><th scope="col">{t('fact')}</th>{docs.map((d, i) => <th key={d.name} scope="col" class="num"><Key i={i} /> {t('mean')} · {t('p95')}</th>)}</tr></thead>
      <tbody>
        {rows.map(r => (
          <tr key={r.key}>
            <th scope="row">{t(r.name)}</th>
            {docs.map(d => { const v = mean(d, r.key); return <td key={d.name} class="num">{v.mean === null ? '–' : <Num f={r.write(v.mean)} />}{v.p95 !== null && <> <span class="muted">·</span> <Num f={r.write(v.p95)} /></>}</td> })}
          </tr>
        ))}
      </tbody>
    </table>
  )
}
