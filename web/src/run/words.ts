import { words } from '../i18n'

const en = {
  load: 'Load', feel: 'Users feel', engine: 'Engine', accelerator: 'Accelerator', network: 'Network', client: 'Client',
  users: 'Users', usersPart: 'users', sessions: 'sessions', inFlight: 'In flight', arrivals: 'Arrivals', sent: 'sent', asked: 'asked', received: 'received',
  states: 'In flight by state', waitingFirst: 'waiting for first token', decoding: 'decoding',
  ttft: 'Time to first token', tpot: 'Time per output token', itl: 'Inter-token latency', e2e: 'End to end', output: 'Output tokens', prompt: 'Prompt tokens', completed: 'Completed',
  errors: 'Failures', failed: 'failed', cancelled: 'cancelled',
  queue: 'Running, waiting', running: 'running', waiting: 'waiting', kv: 'KV cache', prefix: 'Prefix hits', preempt: 'Preemptions', times: 'Time in engine', queueTime: 'queue', prefillTime: 'prefill', decodeTime: 'decode',
  generated: 'Generated tokens', batch: 'Batch size', spec: 'Draft acceptance', gateway: 'Gateway',
  sm: 'SM activity', tensor: 'Tensor activity', dram: 'DRAM activity', gpuUtil: 'GPU utilisation', gpuMem: 'GPU memory', power: 'Power', clock: 'SM clock', temp: 'Temperature', throttled: 'Throttled',
  net: 'Network', nvlink: 'NVLink', pcie: 'PCIe', rdma: 'RDMA', retransmits: 'Retransmits', lag: 'Client lag', sendLag: 'send', readLag: 'read', canaryLag: 'canary', cpu: 'Client CPU',

  valid: 'valid', 'client-bound': 'client-bound', invalid: 'invalid', interrupted: 'interrupted', killed: 'killed', failedRun: 'failed', stopping: 'stopping', connecting: 'connecting again',
  soFar: 'valid so far', aside: 'does not decide about the run',
  prepare: 'preparing', warmup: 'warm-up', steady: 'steady', drain: 'drain', step: 'step {n} of {of}', of: '{a} of {b}', left: '{t} left',
  hInFlight: 'in flight', hGoodput: 'goodput', hTtft: 'ttft p95', hTpot: 'tpot p95', hOutput: 'output', hFailures: 'failures',
  over: '+{by} over {limit}', manifold: '{by} × {limit}', overOnly: 'unanswered > {limit}', endless: 'unanswered', endlessWhy: 'Requests that failed or stopped halfway count as infinite, and so do those given up that had waited for longer than the limit', firstTurns: 'first turns', laterTurns: 'later turns', met: 'met', missed: 'missed', unmeasured: 'not measured', absent: 'not in this page', limits: 'Limits', workload: 'Workload', workloadRows: 'Limits and workloads', spark60: 'the last 60 s', sparkRange: 'over the range',
  wholeRun: 'Whole run', range: 'Range', goLive: 'Follow live', stop: 'Stop', stopSure: 'Stop this run?', report: 'Report', lanes: 'Lanes', marks: 'Marks', marksNone: 'No marks', table: 'Table', heat: 'Heat map', bands: 'Bands', all: 'all', byWorkload: '{n} workloads', p50: 'p50', p95: 'p95', p99: 'p99',
  requests: 'Requests', noData: 'not recorded', notStated: 'no source states it', awaits: 'nothing yet', nothingIn: 'nothing in this range', slo: 'SLO {limit}', min: 'min', median: 'median', max: 'max', worst: 'worst: {name}', members: 'of {n}',
  laneHelp: 'Click to enlarge; drag to move', resize: 'Height of {lane}', chooseLanes: 'Lanes to show', usual: 'The usual', up: 'Up', down: 'Down', close: 'Close', timeRows: 'From, for {span}',
  kNext: 'next lane', kPrev: 'previous lane', kFocus: 'enlarge the lane', kBrush: 'begin or end a range at the cursor', kWhole: 'whole run', kZoomRange: 'zoom to the range', kHeat: 'heat map of the lane', kTable: 'table of the lane', kLive: 'follow live', kLanes: 'choose lanes', kMarks: 'list of marks',
  kLeft: 'cursor left', kRight: 'cursor right', kPanLeft: 'look earlier', kPanRight: 'look later', kIn: 'zoom in', kOut: 'zoom out', kEsc: 'no cursor, no range', kMoveDown: 'move the lane down', kMoveUp: 'move the lane up',
  mouse: 'Drag: range. Shift and drag, or drag the axis: move. Ctrl and wheel: zoom. Double click: whole run.', waitingRun: 'Waiting for the first request', laneSummary: '{lane}: {low} to {high}, last {last}', dropped: '{n} samples were not shown: the panel was too slow. The records are complete.',
  neverDue: 'This run sent no request: none was due in its {window} ({load}). A longer run or a higher rate has some.', neverStopped: 'This run was stopped before its first request was due.', neverFailed: 'This run ended before its first request was sent. What the endpoint can do says:',
  noneSent: 'no request was sent', noneOk: 'none of {n} requests succeeded', noFigure: 'no request has this figure', axis: 'Time since the start', compareWith: 'Compare', runAgain: 'Run again', making: 'Making what is drawn', makingShare: 'Making what is drawn of this run, once: {n} %', steps: 'Steps', probe: 'Probe',
}

export type Word = keyof typeof en

export const t = words(en, {
  load: '负载', feel: '用户感受', engine: '引擎', accelerator: '加速器', network: '网络', client: '客户端',
  users: '用户', usersPart: '用户', sessions: '会话', inFlight: '进行中', arrivals: '到达', sent: '已发送', asked: '要求', received: '接收',
  states: '进行中（按状态）', waitingFirst: '等待首个 token', decoding: '解码中',
  ttft: '首 token 时间', tpot: '每输出 token 时间', itl: 'token 间延迟', e2e: '端到端', output: '输出 token', prompt: '提示 token', completed: '已完成',
  errors: '失败', failed: '失败', cancelled: '已取消',
  queue: '运行与等待', running: '运行', waiting: '等待', kv: 'KV 缓存', prefix: '前缀命中', preempt: '抢占', times: '引擎内时间', queueTime: '排队', prefillTime: '预填充', decodeTime: '解码',
  generated: '生成 token', batch: '批大小', spec: '草稿接受率', gateway: '网关',
  sm: 'SM 活跃度', tensor: '张量核活跃度', dram: '显存带宽活跃度', gpuUtil: 'GPU 利用率', gpuMem: 'GPU 显存', power: '功率', clock: 'SM 频率', temp: '温度', throttled: '降频',
  net: '网络', nvlink: 'NVLink', pcie: 'PCIe', rdma: 'RDMA', retransmits: '重传', lag: '客户端延迟', sendLag: '发送', readLag: '读取', canaryLag: '探针', cpu: '客户端 CPU',

  valid: '有效', 'client-bound': '受限于客户端', invalid: '无效', interrupted: '已中断', killed: '进程被终止', failedRun: '失败', stopping: '正在停止', connecting: '正在重新连接',
  soFar: '目前有效', aside: '不决定整个运行的判定',
  prepare: '准备', warmup: '预热', steady: '稳态', drain: '排空', step: '第 {n} 步，共 {of} 步', of: '{a} / {b}', left: '剩余 {t}',
  hInFlight: '进行中', hGoodput: '有效吞吐', hTtft: 'ttft p95', hTpot: 'tpot p95', hOutput: '输出', hFailures: '失败',
  over: '超出 {limit} {by}', manifold: '{limit} 的 {by} 倍', overOnly: '未获回答 > {limit}', endless: '未获回答', endlessWhy: '失败或中断的请求按无限大计，等待超过限值后被放弃的请求也是', firstTurns: '首轮', laterTurns: '后续轮', met: '达标', missed: '未达标', unmeasured: '未测得', absent: '本页不含', limits: '限值', workload: '工作负载', workloadRows: '限值与工作负载', spark60: '最近 60 秒', sparkRange: '所选范围',
  wholeRun: '整个运行', range: '范围', goLive: '跟随实时', stop: '停止', stopSure: '停止此运行？', report: '报告', lanes: '泳道', marks: '标记', marksNone: '没有标记', table: '表格', heat: '热图', bands: '分位带', all: '全部', byWorkload: '{n} 个负载', p50: 'p50', p95: 'p95', p99: 'p99',
  requests: '请求', noData: '未记录', notStated: '没有来源提供', awaits: '尚无数据', nothingIn: '此范围内没有数据', slo: 'SLO {limit}', min: '最小', median: '中位', max: '最大', worst: '最差：{name}', members: '共 {n} 个',
  laneHelp: '点击放大，拖动可移动', resize: '{lane} 的高度', chooseLanes: '要显示的泳道', usual: '默认', up: '上移', down: '下移', close: '关闭', timeRows: '自，每行 {span}',
  kNext: '下一条泳道', kPrev: '上一条泳道', kFocus: '放大泳道', kBrush: '在光标处开始或结束选择', kWhole: '整个运行', kZoomRange: '缩放到所选范围', kHeat: '泳道热图', kTable: '泳道表格', kLive: '跟随实时', kLanes: '选择泳道', kMarks: '标记列表',
  kLeft: '光标左移', kRight: '光标右移', kPanLeft: '看更早', kPanRight: '看更晚', kIn: '放大', kOut: '缩小', kEsc: '取消光标与范围', kMoveDown: '泳道下移', kMoveUp: '泳道上移',
  mouse: '拖动：选择范围。按住 Shift 拖动或拖动时间轴：平移。Ctrl 加滚轮：缩放。双击：整个运行。', waitingRun: '等待第一个请求', laneSummary: '{lane}：{low} 至 {high}，最新 {last}', dropped: '有 {n} 个样本未显示：面板来不及处理。记录是完整的。',
  neverDue: '此运行没有发送任何请求：在其 {window} 内没有到期的请求（{load}）。运行更久或速率更高就会有。', neverStopped: '此运行在第一个请求到期之前被停止。', neverFailed: '此运行在发送第一个请求之前结束。查看端点的能力：',
  noneSent: '没有发送任何请求', noneOk: '{n} 个请求无一成功', noFigure: '没有请求具有此指标', axis: '自开始以来的时间', compareWith: '对比', runAgain: '再次运行', making: '正在生成面板数据', makingShare: '正在首次生成此运行的面板数据：{n} %', steps: '步骤', probe: '探测',
})

/** t for a word that comes from data, and the word itself where there is none. */
export const known = (w: string): string => (w in en ? t(w as Word) : w)
