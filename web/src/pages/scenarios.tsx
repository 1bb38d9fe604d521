// Scenarios: written with completion and errors in place, kept, looked at as a plan, and run.

import { useEffect, useRef, useState } from 'preact/hooks'
import { api, HttpSource, type Plan, type RunRow, type ScenarioError, ScenarioRefused } from '../api'
import type { PageProps } from '../app'
import { count, duration, figure, local, plain, utc } from '../format'
import { words } from '../i18n'
import { told } from '../i18n/told'
import { go, setQuery } from '../route'
import { Later, Num, Trouble, useLoad, useTick } from '../ui'
import { Editor, type EditorHandle } from './parts/editor'
import { Failed } from './parts/failed'
import { useRested } from './parts/size'
import './scenarios.css'
import type { Schema } from './yaml'

const t = words(
  {
    title: 'Scenarios', stored: 'Stored', noneStored: 'None stored yet. Write one, give it a name and save it.', fresh: 'New', name: 'Name to store it under', save: 'Save', saved: 'Saved', remove: 'Delete', really: 'Delete {name}', start: 'Start the run', starting: 'Starting', errors: 'What is wrong', at: 'line {line}, column {column}', fix: 'Meant: {fix}',
    right: 'Nothing is wrong with it.', checking: 'Checking', plan: 'What it will do', sends: 'Sends to', load: 'Load', requests: 'Requests', asMany: 'as many as the answers leave time for', tokens: 'Tokens', prompt: '{n} prompt', output: 'at most {n} output', each: 'Each request', eachSays: 'about {p} prompt and {o} output tokens, {b}', bytes: 'Sent', length: 'Length',
    drain: 'up to {d} more to drain', telemetry: 'Telemetry', searched: 'looked for at {n} addresses', hash: 'Hash of the load', fields: 'Every field and where it comes from', field: 'Field', value: 'Value', from: 'From', users: '{n} users', rate: '{n} requests/s {arrival}', sessions: '{n} sessions/s {arrival}', measured: '{d} measured', warm: '{d} warm-up',
    live: '{name} is running', stop: 'Stop it', stopping: 'Stopping', open: 'Watch it', readonly: 'This panel only shows runs: it was started with --read-only.', one: 'One run at a time: this can start when the running one has ended.', unsaved: 'not saved', badName: 'Letters, digits, dot, dash and underscore',
  },
  {
    title: '场景', stored: '已保存', noneStored: '尚未保存场景。编写后命名并保存。', fresh: '新建', name: '保存名称', save: '保存', saved: '已保存', remove: '删除', really: '删除 {name}', start: '开始运行', starting: '正在开始', errors: '存在的问题', at: '第 {line} 行，第 {column} 列', fix: '应为：{fix}',
    right: '没有问题。', checking: '正在检查', plan: '将要执行', sends: '发送到', load: '负载', requests: '请求', asMany: '视回答速度而定', tokens: 'Token', prompt: '{n} 提示', output: '最多 {n} 输出', each: '每个请求', eachSays: '约 {p} 提示与 {o} 输出 token，{b}', bytes: '发送', length: '时长',
    drain: '收尾最多再 {d}', telemetry: '遥测', searched: '在 {n} 个地址查找', hash: '负载哈希', fields: '所有字段及其来源', field: '字段', value: '值', from: '来源', users: '{n} 用户', rate: '{n} 请求/s {arrival}', sessions: '{n} 会话/s {arrival}', measured: '测量 {d}', warm: '预热 {d}',
    live: '{name} 正在运行', stop: '停止', stopping: '正在停止', open: '查看', readonly: '此面板只读：以 --read-only 启动。', one: '一次只能运行一个：待当前运行结束后才能开始。', unsaved: '未保存', badName: '字母、数字、点、短横线和下划线',
  },
)

const template = (workload: string) => `target:
  url: http://127.0.0.1:8000
users:
  ${workload ? `workload: ${workload}` : 'prompt-tokens: lognormal:p50=400,p99=4000\n  output-tokens: uniform:50..400'}
load:
  users: 4
  duration: 1m
  warmup: 10s
guards:
  slo: ttft.p95=500ms
`

const draft = {
  read: (): string | null => { try { return sessionStorage.getItem('plimsoll.draft') } catch { return null } },
  keep: (s: string) => { try { sessionStorage.setItem('plimsoll.draft', s) } catch { /* it is on screen all the same */ } },
}

export default function Scenarios({ query }: PageProps) {
  const wanted = query.get('name') ?? ''
  const fromRun = query.get('run') ?? ''
  const [text, setText] = useState(() => (query.has('workload') ? template(query.get('workload') ?? '') : draft.read() ?? template('')))
  const [kept, setKept] = useState<string | null>(null)
  const [name, setName] = useState(wanted)
  const [sure, setSure] = useState('')
  const [failed, setFailed] = useState<Error | null>(null)
  const [refused, setRefused] = useState<{ text: string; errors: ScenarioError[] } | null>(null)
  const [starting, setStarting] = useState(false)
  const [stopping, setStopping] = useState(false)
  const reading = useRef(true)
  const [tick, look] = useTick(3000, reading)
  const handle = useRef<EditorHandle | null>(null)
  const stored = useLoad(s => api.scenarios(s), [tick])
  const schema = useLoad(s => api.schema(s), [])
  const version = useLoad(s => api.version(s), [])
  const library = useLoad(s => api.workloads({}, s), [])
  const runs = useLoad(s => api.runs(s), [tick])
  reading.current = stored.loading || runs.loading
  const opened = useLoad(async s => {
    if (fromRun !== '') return { name: '', text: (await new HttpSource(fromRun).doc(s)).scenario }
    if (wanted !== '') return { name: wanted, text: (await api.scenario(wanted, s)).scenario }
    return null
  }, [wanted, fromRun])
  useEffect(() => {
    if (opened.value === null) return
    setText(opened.value.text)
    setName(opened.value.name)
    setKept(opened.value.name === '' ? null : opened.value.text)
  }, [opened.value])
  useEffect(() => draft.keep(text), [text])
  const rested = useRested(text, 300)
  const check = useLoad(s => api.check(rested, s), [rested])
  const fresh = rested === text && !check.loading
  const errors: ScenarioError[] = refused?.text === text ? refused.errors : check.value?.errors ?? []
  const live = runs.value?.find(r => r.live)
  const readonly = version.value?.readonly ?? false
  const goodName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(name)
  const trouble = (e: unknown) => setFailed(e instanceof Error ? e : new Error(String(e)))

  const save = (e: Event) => {
    e.preventDefault()
    if (!goodName) return
    api.saveScenario(name, text).then(() => { setKept(text); setFailed(null); look(); setQuery({ name, run: null, workload: null }) }, trouble)
  }
  const remove = (n: string) => {
    if (sure !== n) { setSure(n); return }
    api.deleteScenario(n).then(() => { setSure(''); look(); if (wanted === n) setQuery({ name: null }) }, trouble)
  }
  const start = () => {
    setStarting(true)
    setFailed(null)
    api.start(text).then(r => go(`/runs/${encodeURIComponent(r.id)}`), (e: unknown) => {
      setStarting(false)
      if (e instanceof ScenarioRefused) setRefused({ text, errors: e.errors })
      else trouble(e)
    })
  }
  const stop = (r: RunRow) => { setStopping(true); api.stop(r.id).then(look, trouble).finally(() => setStopping(false)) }
  const known = { 'users.workload': (library.value ?? []).map(w => w.name) }
  return (
    <div class="page">
      <div class="page-head"><h1>{t('title')}</h1>{name !== '' && <span class="muted">{name}{kept !== text && ` · ${t('unsaved')}`}</span>}</div>
      {live && (
        <div class="remark row" role="status">
          <span class="live-dot" aria-hidden="true" /><span>{t('live', { name: live.name || live.id })}</span>
          <a class="button small" href={`/runs/${encodeURIComponent(live.id)}`}>{t('open')}</a>
          {!readonly && <button type="button" class="button small" disabled={stopping} onClick={() => stop(live)}>{t(stopping ? 'stopping' : 'stop')}</button>}
        </div>
      )}
      {readonly && <p class="remark">{t('readonly')}</p>}
      {failed && <Failed error={failed} />}
      {[opened.error, stored.error].map((e, i) => e && <Trouble key={i} error={e} />)}
      <div class="sc">
        <nav class="sc-list" aria-label={t('stored')}>
          <div class="spread"><h2>{t('stored')}</h2><button type="button" class="button small" onClick={() => { setText(template('')); setName(''); setKept(null); setQuery({ name: null, run: null, workload: null }) }}>{t('fresh')}</button></div>
          {stored.value?.length === 0 && <p class="muted small">{t('noneStored')}</p>}
          <ul>
            {(stored.value ?? []).map(s => (
              <li key={s.name} aria-current={s.name === wanted}>
                <button type="button" class="plain" onClick={() => setQuery({ name: s.name, run: null, workload: null }, false)}>{s.name}<div class="small muted" title={utc(s.changed)}>{local(s.changed)}</div></button>
                {!readonly && <button type="button" class="button small" aria-label={t('really', { name: s.name })} onClick={() => remove(s.name)} onBlur={() => setSure('')}>{sure === s.name ? t('really', { name: s.name }) : t('remove')}</button>}
              </li>
            ))}
          </ul>
        </nav>
        <div class="sc-main">
          <Editor text={text} onText={setText} errors={errors} schema={schema.value as Schema | null} known={known} handle={handle} />
          <div class="row">
            {!readonly && <button type="button" class="button primary" disabled={!fresh || errors.length > 0 || starting || live !== undefined} title={live ? t('one') : undefined} onClick={start}>{t(starting ? 'starting' : 'start')}</button>}
            {!readonly && (
              <form class="row tight" onSubmit={save}>
                <input class="field" value={name} placeholder={t('name')} aria-label={t('name')} aria-invalid={name !== '' && !goodName} title={t('badName')} onInput={e => setName(e.currentTarget.value)} />
                <button class="button" type="submit" disabled={!goodName || (kept === text && name === wanted)}>{kept === text && name === wanted && name !== '' ? t('saved') : t('save')}</button>
              </form>
            )}
            <span class="small muted" role="status">{!fresh ? t('checking') : errors.length === 0 && !check.error ? t('right') : ''}</span>
          </div>
          {name !== '' && !goodName && <p class="small is-fail">{t('badName')}</p>}
          {errors.length === 0 && fresh && check.value?.notes?.map((n, i) => <p key={i} class="remark"><span><span class="mono">{n.field}: </span>{told(n.text)}</span></p>)}
          {check.error && <Trouble error={check.error} again={check.again} />}
          {errors.length > 0 && (
            <section aria-label={t('errors')}>
              <h2>{t('errors')}</h2>
              <ol class="sc-errors">
                {errors.map((e, i) => (
                  <li key={i}>
                    <span>{e.field && <span class="mono">{e.field}: </span>}{told(e.text, e.said)}</span>
                    <span class="small muted">
                      {e.line > 0 && <button type="button" class="plain" onClick={() => handle.current?.go(e.line, Math.max(e.column, 1))}>{t('at', { line: e.line, column: e.column })}</button>}
                      {e.fix && <>{e.line > 0 && ' · '}{t('fix', { fix: told(e.fix) })}</>}
                    </span>
                  </li>
                ))}
              </ol>
            </section>
          )}
        </div>
        <div class="sc-main">
          {check.value === null ? !check.error && <Later><p class="muted">{t('checking')}</p></Later> : check.value.plan && <Planned plan={check.value.plan} />}
        </div>
      </div>
    </div>
  )
}

const list = (v: unknown): unknown[] => (Array.isArray(v) ? v : [])
const texts = (v: unknown): string[] => list(v).filter((x): x is string => typeof x === 'string')
const number = (v: unknown): number | null => (typeof v === 'number' && Number.isFinite(v) ? v : null)
const record = (v: unknown): Record<string, unknown> => (typeof v === 'object' && v !== null ? (v as Record<string, unknown>) : {})

/** The plan as `run --dry-run` prints it. */
function Planned({ plan }: { plan: Plan }) {
  const seconds = (v: number | null): string => plain(duration(v === null ? null : v * 1000))
  const round = (v: number | null) => count(v === null ? null : Math.round(v))
  const steps = list(plan.steps).map(record)
  const prompt = number(plan.prompt_tokens)
  const output = number(plan.output_tokens)
  const length = number(plan.duration_s)
  const pages = texts(plan.telemetry)
  const searched = texts(plan.telemetry_search).length + texts(plan.telemetry_host).length
  const step = (s: Record<string, unknown>): string => {
    const users = number(s.users)
    const rate = number(s.rate)
    const parts = [users ? t('users', { n: users }) : rate !== null ? t(s.sessions === true ? 'sessions' : 'rate', { n: plain(count(rate)), arrival: typeof s.arrival === 'string' ? s.arrival : '' }).trim() : '']
    if (typeof s.shape === 'string' && s.shape) parts.push(s.shape)
    if (number(s.warmup_s)) parts.push(t('warm', { d: seconds(number(s.warmup_s)) }))
    if (number(s.duration_s) !== null) parts.push(t('measured', { d: seconds(number(s.duration_s)) }))
    return parts.filter(Boolean).join(', ')
  }
  return (
    <section class="section" aria-label={t('plan')}>
      <h2>{t('plan')}</h2>
      <dl class="sc-plan">
        <div><dt>{t('sends')}</dt><dd>{texts(plan.endpoints).map(e => <div key={e} class="mono">{e}</div>)}</dd></div>
        <div><dt>{t('load')}</dt><dd>{steps.slice(0, 12).map((s, i) => <div key={i}>{step(s)}</div>)}{steps.length > 12 && '…'}</dd></div>
        <div><dt>{t('requests')}</dt><dd>{number(plan.requests) === null ? t('asMany') : <Num f={round(number(plan.requests))} />}</dd></div>
        {prompt !== null && output !== null && <div><dt>{t('tokens')}</dt><dd>{t('prompt', { n: plain(round(prompt)) })}, {t('output', { n: plain(round(output)) })}</dd></div>}
        <div><dt>{t('each')}</dt><dd>{t('eachSays', { p: plain(round(number(plan.mean_prompt_tokens))), o: plain(round(number(plan.mean_output_tokens))), b: plain(figure(number(plan.mean_body_bytes), 'bytes')) })}</dd></div>
        {number(plan.sent_bytes) !== null && <div><dt>{t('bytes')}</dt><dd><Num f={figure(number(plan.sent_bytes), 'bytes')} /></dd></div>}
        <div><dt>{t('length')}</dt><dd>{length === null ? t('asMany') : seconds(length)}; {t('drain', { d: seconds(number(plan.drain_s)) })}</dd></div>
        <div><dt>{t('telemetry')}</dt><dd>{pages.map(p => <div key={p} class="mono">{p}</div>)}{searched > 0 && t('searched', { n: searched })}{pages.length === 0 && searched === 0 && '–'}</dd></div>
        <div><dt>{t('hash')}</dt><dd class="mono">{String(plan.hash ?? '')}</dd></div>
      </dl>
      <details>
        <summary class="small muted">{t('fields')}</summary>
        <table class="table" aria-label={t('fields')}>
          <thead><tr><th scope="col">{t('field')}</th><th scope="col">{t('value')}</th><th scope="col">{t('from')}</th></tr></thead>
          <tbody>{list(plan.fields).map(record).map((f, i) => <tr key={i}><td class="mono">{String(f.path)}</td><td class="mono">{String(f.value)}</td><td class="muted">{told(String(f.origin))}</td></tr>)}</tbody>
        </table>
      </details>
    </section>
  )
}
