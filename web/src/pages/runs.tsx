// The list of runs: found by typing, noted and tagged in place, chosen for comparing.

import { Fragment } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { api, ApiError, type RunRow } from '../api'
import type { PageProps } from '../app'
import { count, duration, elapsed, figure, plain } from '../format'
import { words } from '../i18n'
import { told } from '../i18n/told'
import { useKeys } from '../keys'
import { go, setQuery } from '../route'
import { Empty, Later, Num, Time, Trouble, useLoad, useTick } from '../ui'
import { findRuns, loadParts, readTags, tagChange, tagText } from './find-runs'
import { Failed } from './parts/failed'
import './runs.css'

const t = words(
  {
    title: 'Runs', search: 'Search runs', hint: 'name, model, tag, note', focus: 'search the runs', none: 'No run yet. This one needs no server and no keys:', nothing: 'No run has all of these words.', chosen: 'Chosen for comparing', choose: 'Choose {name} for comparing', compare: 'Compare {n}', two: 'Choose two or more to compare',
    run: 'Run', verdict: 'Verdict', requests: 'Requests', failures: 'Failures', output: 'Output/s', goodput: 'Goodput', slo: 'SLO', started: 'Started', met: 'met', missed: 'missed', valid: 'valid', 'client-bound': 'client-bound', invalid: 'invalid', interrupted: 'interrupted', killed: 'killed', unreadable: 'unreadable', failed: 'failed', done: 'done', running: 'running', live: 'live', stop: 'Stop', stopping: 'Stopping', edit: 'Edit', name: 'Name', note: 'Note', tags: 'Tags, as gpu=h100 build=v1', save: 'Save', cancel: 'Cancel',
    remove: 'Delete', really: 'Delete this run and all of its data for good', whatWrong: '{file}: {text}. What to do: {fix}', badTags: 'A tag is a name, an equals sign and a value', start: 'Start a run', of: '{n} of {all}', tag: 'Search for {tag}', goCompare: 'compare the chosen runs',
  },
  {
    title: '运行', search: '搜索运行', hint: '名称、模型、标签、备注', focus: '搜索运行', none: '还没有运行。以下命令无需服务器和密钥：', nothing: '没有运行包含所有这些词。', chosen: '选入对比', choose: '选择 {name} 进行对比', compare: '对比 {n} 个', two: '选择两个或更多进行对比',
    run: '运行', verdict: '结论', requests: '请求', failures: '失败', output: '输出/s', goodput: '有效吞吐', slo: 'SLO', started: '开始时间', met: '达标', missed: '未达标', valid: '有效', 'client-bound': '受限于客户端', invalid: '无效', interrupted: '已中断', killed: '进程被终止', unreadable: '无法读取', failed: '失败', done: '已完成', running: '运行中', live: '实时', stop: '停止', stopping: '正在停止', edit: '编辑', name: '名称', note: '备注', tags: '标签，例如 gpu=h100 build=v1', save: '保存', cancel: '取消',
    remove: '删除', really: '永久删除此运行及其所有数据', whatWrong: '{file}：{text}。处理办法：{fix}', badTags: '标签由名称、等号和值组成', start: '开始运行', of: '{all} 个中的 {n} 个', tag: '搜索 {tag}', goCompare: '对比所选运行',
  },
)

export default function Runs({ query }: PageProps) {
  const [live, setLive] = useState(false)
  const reading = useRef(true)
  const [tick, look] = useTick(live ? 2000 : 10_000, reading)
  const runs = useLoad(s => api.runs(s), [tick])
  reading.current = runs.loading
  useEffect(() => setLive(runs.value?.some(r => r.live) ?? false), [runs.value])
  const version = useLoad(s => api.version(s), [])
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [editing, setEditing] = useState<string | null>(null)
  const [stopping, setStopping] = useState<ReadonlySet<string>>(new Set())
  const [failed, setFailed] = useState<Error | null>(null)
  const field = useRef<HTMLInputElement>(null)
  const search = query.get('q') ?? ''
  const all = runs.value ?? []
  const shown = findRuns(all, search)
  const picked = all.filter(r => chosen.has(r.id) && !r.live && readable(r))
  const compare = () => { if (picked.length > 1) go(`/compare?runs=${picked.map(r => encodeURIComponent(r.id)).join(',')}`) }
  useKeys([
    { keys: '/', text: () => t('focus'), run: () => field.current?.focus() },
    { keys: 'c', text: () => t('goCompare'), run: compare },
  ])
  const stop = (id: string) => {
    setStopping(new Set([...stopping, id]))
    api.stop(id).then(() => setFailed(null), (e: unknown) => { setFailed(e as Error); setStopping(s => new Set([...s].filter(x => x !== id))) })
  }
  const readonly = version.value?.readonly ?? false
  return (
    <div class="page">
      <div class="page-head">
        <h1>{t('title')}</h1>
        {all.length > 0 && <input ref={field} class="field rn-search" type="search" placeholder={t('hint')} aria-label={t('search')} value={search} onInput={e => setQuery({ q: e.currentTarget.value })} />}
        {search !== '' && <span class="small muted num" role="status">{t('of', { n: shown.length, all: all.length })}</span>}
        <span class="row">
          {picked.length > 0 && <button type="button" class="button primary" disabled={picked.length < 2} title={picked.length < 2 ? t('two') : undefined} onClick={compare}>{picked.length < 2 ? t('two') : t('compare', { n: picked.length })}</button>}
          {!readonly && <a class="button" href="/scenarios">{t('start')}</a>}
        </span>
      </div>
      {failed && <Failed error={failed} />}
      {runs.error && <Trouble error={runs.error} again={runs.again} />}
      {runs.value === null ? !runs.error && <Later><Bones /></Later>
        : all.length === 0 ? <Empty text={t('none')} type="plimsoll demo" />
          : shown.length === 0 ? <Empty text={t('nothing')} />
            : (
              <table class="table rn-table" aria-label={t('title')}>
                <thead>
                  <tr>
                    <th scope="col"><span class="visually-hidden">{t('chosen')}</span></th><th scope="col">{t('run')}</th><th scope="col">{t('verdict')}</th>
                    <th scope="col" class="num rn-c2">{t('requests')}</th><th scope="col" class="num rn-c1">{t('failures')}</th><th scope="col" class="num">ttft p95</th><th scope="col" class="num rn-c2">tpot p95</th>
                    <th scope="col" class="num rn-c1">{t('output')}</th><th scope="col" class="num rn-c3">{t('goodput')}</th><th scope="col" class="rn-c2">{t('slo')}</th><th scope="col" class="rn-c3">{t('started')}</th><th scope="col"><span class="visually-hidden">{t('edit')}</span></th>
                  </tr>
                </thead>
                <tbody>
                  {shown.map(r => (
                    <Fragment key={r.id}>
                      <tr class={r.live ? 'rn-live' : ''} aria-selected={chosen.has(r.id)}>
                        <td>{!r.live && readable(r) && <input type="checkbox" aria-label={t('choose', { name: r.name || r.id })} checked={chosen.has(r.id)} onChange={() => { const next = new Set(chosen); if (!next.delete(r.id)) next.add(r.id); setChosen(next) }} />}</td>
                        <td>
                          <div class="rn-name">
                            <a href={`/runs/${encodeURIComponent(r.id)}`} title={r.id}>{r.name || r.id}</a>
                            <span class="rn-note rn-what" title={r.load}>{[loadParts(r.load, r.workloads).map(p => told(p)).join(', '), r.model, r.workloads.length > 2 ? `${r.workloads[0]} +${r.workloads.length - 1}` : r.workloads.join(', ')].filter(Boolean).join(' · ')}</span>
                            {r.note && <span class="rn-note">{r.note}</span>}
                            {r.problem && <span class="rn-note is-note rn-problem">{t('whatWrong', { file: r.problem.file, text: told(r.problem.text), fix: told(r.problem.fix) })}</span>}
                            {Object.keys(r.tags).length > 0 && (
                              <span class="rn-tags">{Object.entries(r.tags).map(([k, v]) => <button key={k} type="button" class="tag" title={t('tag', { tag: `${k}=${v}` })} onClick={() => setQuery({ q: `${k}=${v}` })}>{k}={v}</button>)}</span>
                            )}
                          </div>
                        </td>
                        <td><Verdict r={r} /></td>
                        <td class="num rn-c2"><Num f={count(r.requests)} /></td>
                        <td class={'num rn-c1' + (r.errors ? ' is-fail' : '')}>{plain(count(r.errors))}{r.errors && r.error_share !== null ? <div class="rn-note is-fail">{plain(figure(r.error_share, 'share'))}</div> : null}</td>
                        <td class="num"><Num f={duration(r.ttft_p95_ms)} /></td>
                        <td class="num rn-c2"><Num f={duration(r.tpot_p95_ms)} /></td>
                        <td class="num rn-c1"><Num f={figure(r.output_per_s, 'tokens', true)} /></td>
                        <td class="num rn-c3"><Num f={figure(r.goodput_rps, 'requests', true)} /></td>
                        <td class={'rn-c2 rn-word' + (r.slo_met === false ? ' is-fail' : '')}>{r.slo_met === null ? '–' : t(r.slo_met ? 'met' : 'missed')}</td>
                        <td class="rn-c3"><Time at={r.started} />{r.duration_s !== null && <div class="rn-note">{elapsed(r.duration_s * 1000)}</div>}</td>
                        <td class="right">
                          {readonly ? null : r.live
                            ? <button type="button" class="button small" disabled={stopping.has(r.id)} onClick={() => stop(r.id)}>{t(stopping.has(r.id) ? 'stopping' : 'stop')}</button>
                            : <button type="button" class="button small" aria-expanded={editing === r.id} onClick={() => setEditing(editing === r.id ? null : r.id)}>{t('edit')}</button>}
                        </td>
                      </tr>
                      {editing === r.id && <tr><td /><td colSpan={11}><Edit r={r} done={() => { setEditing(null); look() }} /></td></tr>}
                    </Fragment>
                  ))}
                </tbody>
              </table>
            )}
    </div>
  )
}

/** Whether the run can be opened, as far as the list knows. */
const readable = (r: RunRow): boolean => r.state !== 'unreadable'

/** The verdict as a word; the colour only repeats it. */
function Verdict({ r }: { r: RunRow }) {
  if (r.live) return <span class="rn-verdict"><span class="live-dot" aria-hidden="true" />{t('live')}</span>
  const word = (w: string): string => (w === 'valid' || w === 'client-bound' || w === 'invalid' || w === 'interrupted' || w === 'killed' || w === 'unreadable' || w === 'failed' || w === 'done' || w === 'running' ? t(w) : w)
  const bad = r.verdict === 'invalid' || r.state === 'failed' || !readable(r)
  const cut = r.state === 'interrupted' || r.state === 'killed' || r.state === 'failed' || !readable(r)
  return (
    <span class={'rn-verdict ' + (bad ? 'is-fail' : r.verdict === 'client-bound' || cut ? 'is-note' : '')}>
      {word(readable(r) ? (r.verdict ?? r.state) : r.state)}{readable(r) && r.verdict !== null && cut && <span class="small">· {word(r.state)}</span>}
    </span>
  )
}

function Edit({ r, done }: { r: RunRow; done: () => void }) {
  const [name, setName] = useState(r.name)
  const [note, setNote] = useState(r.note)
  const [tags, setTags] = useState(tagText(r.tags))
  const [error, setError] = useState<Error | null>(null)
  const [sure, setSure] = useState(false)
  const read = readTags(tags)
  const save = (e: Event) => {
    e.preventDefault()
    if (read === null || !readable(r)) return
    const change = tagChange(r.tags, read)
    api.patchRun(r.id, { ...(name !== r.name && { name }), ...(note !== r.note && { note }), ...(Object.keys(change).length > 0 && { tags: change }) }).then(done, (x: unknown) => setError(x as Error))
  }
  const remove = () => {
    if (!sure) { setSure(true); return }
    api.deleteRun(r.id).then(done, (x: unknown) => setError(x instanceof ApiError ? x : new Error(String(x))))
  }
  return (
    <form class="rn-edit" onSubmit={save} onKeyDown={e => { if (e.key === 'Escape') { e.stopPropagation(); done() } }}>
      {readable(r) && <><label class="stack">{t('name')}<input class="field" value={name} maxLength={200} onInput={e => setName(e.currentTarget.value)} /></label>
      <label class="stack">{t('note')}<input class="field" value={note} maxLength={2000} autoFocus onInput={e => setNote(e.currentTarget.value)} /></label>
      <label class="stack">{t('tags')}<input class="field" value={tags} aria-invalid={read === null} onInput={e => setTags(e.currentTarget.value)} />{read === null && <span class="is-fail">{t('badTags')}</span>}</label></>}
      <span class="row tight">
        {readable(r) && <button class="button primary" type="submit" disabled={read === null}>{t('save')}</button>}
        <button class="button" type="button" onClick={done}>{t('cancel')}</button>
        <button class="button" type="button" onClick={remove}>{sure ? t('really') : t('remove')}</button>
      </span>
      {error && <Failed error={error} />}
    </form>
  )
}

function Bones() {
  return <div class="stack" aria-busy="true">{Array.from({ length: 6 }, (_, i) => <div key={i} class="bone" style={{ height: '36px' }} />)}</div>
}
