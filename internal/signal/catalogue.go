package signal

import "strings"

// The signals. Their numbers may change from version to version: files hold names.
const (
	// None is no signal.
	None ID = iota
	// ClientUsers is client.users: users at work: in a request, thinking or waiting.
	ClientUsers
	// ClientSessions is client.sessions_in_flight: sessions that have begun and not ended.
	ClientSessions
	// ClientInFlight is client.requests_in_flight: requests that have started and not ended.
	ClientInFlight
	// ClientWaitingFirst is client.waiting_first_token: requests in flight that have had no token yet.
	ClientWaitingFirst
	// ClientDecoding is client.decoding: requests in flight that have had a token.
	ClientDecoding
	// ClientScheduled is client.requests_scheduled: requests that the load profile wanted to start.
	ClientScheduled
	// ClientSent is client.requests_sent: requests that started.
	ClientSent
	// ClientOK is client.requests_ok: requests that ended well, at their end.
	ClientOK
	// ClientErrors is client.requests_failed: requests that failed, at their end.
	ClientErrors
	// ClientCancelled is client.requests_cancelled: requests that their user abandoned, at their end.
	ClientCancelled
	// ClientPromptTokens is client.prompt_tokens: prompt tokens of requests, counted at their first token.
	ClientPromptTokens
	// ClientOutputTokens is client.output_tokens: output tokens, at the time of the event that carried them.
	ClientOutputTokens
	// ClientTTFT is client.ttft: time to first token, at the first token.
	ClientTTFT
	// ClientTPOT is client.tpot: time per output token, at the end of the request.
	ClientTPOT
	// ClientITL is client.itl: inter-token latency, at each token.
	ClientITL
	// ClientE2E is client.e2e: whole response, at its end.
	ClientE2E
	// ClientSendLag is client.send_lag: how late the client started requests, at their start.
	ClientSendLag
	// ClientReadLag is client.read_lag: mean lag of reading behind the kernel of a request, at its end.
	ClientReadLag
	// ClientCanaryLag is client.canary_lag: lag of the loopback canary.
	ClientCanaryLag
	// ClientCPU is client.cpu: processor time of the client over that of the cores it may use.
	ClientCPU
	// RequestsRunning is requests_running: requests in the running batch.
	RequestsRunning
	// RequestsWaiting is requests_waiting: requests that wait to be scheduled.
	RequestsWaiting
	// WaitingDeferred is waiting_deferred: waiting requests held by something else than capacity: adapters, transfers, grammars.
	WaitingDeferred
	// KVCacheUsage is kv_cache_usage: share of the KV cache that active sequences hold; blocks that are only cached count as free.
	KVCacheUsage
	// KVCapacity is kv_capacity: tokens that the KV cache can hold.
	KVCapacity
	// KVUsedTokens is kv_used_tokens: tokens in the KV cache.
	KVUsedTokens
	// MaxConcurrency is max_concurrency: most requests that may run at once.
	MaxConcurrency
	// PrefixCacheQueries is prefix_cache_queries: prompt tokens looked up in the prefix cache.
	PrefixCacheQueries
	// PrefixCacheHits is prefix_cache_hits: prompt tokens found in the prefix cache.
	PrefixCacheHits
	// PrefixCacheHitRatio is prefix_cache_hit_ratio: share of looked-up prompt tokens that the prefix cache held.
	PrefixCacheHitRatio
	// ExternalKVQueries is external_kv_queries: tokens looked up in a KV store outside the GPU.
	ExternalKVQueries
	// ExternalKVHits is external_kv_hits: tokens found in a KV store outside the GPU.
	ExternalKVHits
	// ExternalKVHitRatio is external_kv_hit_ratio: share of looked-up tokens that the outer KV store held.
	ExternalKVHitRatio
	// Preemptions is preemptions: running requests put back into the queue for want of KV cache.
	Preemptions
	// RequestsPaused is requests_paused: requests that lost their place in the batch and wait for memory.
	RequestsPaused
	// PromptTokens is prompt_tokens: prompt tokens, cached ones included.
	PromptTokens
	// PromptTokensCached is prompt_tokens_cached: prompt tokens that came from a cache.
	PromptTokensCached
	// PromptTokensComputed is prompt_tokens_computed: prompt tokens that went through the model.
	PromptTokensComputed
	// GenerationTokens is generation_tokens: generated tokens.
	GenerationTokens
	// RequestsFinished is requests_finished: requests that ended as asked: stop or length.
	RequestsFinished
	// RequestsFailed is requests_failed: requests that ended in an error or were aborted.
	RequestsFailed
	// QueueTime is queue_time: from queued to first scheduled.
	QueueTime
	// PrefillTime is prefill_time: from first scheduled to first token.
	PrefillTime
	// DecodeTime is decode_time: from first to last token.
	DecodeTime
	// InferenceTime is inference_time: from first scheduled to last token.
	InferenceTime
	// TTFT is ttft: time to first token as the engine sees it.
	TTFT
	// ITL is itl: time between outputs as the engine sees it.
	ITL
	// TPOT is tpot: mean time per output token of a request as the engine sees it.
	TPOT
	// E2E is e2e: whole request as the engine sees it.
	E2E
	// StepTokens is step_tokens: tokens of one scheduler step.
	StepTokens
	// EngineSteps is engine_steps: scheduler steps.
	EngineSteps
	// StepTime is step_time: length of one scheduler step.
	StepTime
	// BatchSize is batch_size: requests of one batch or step.
	BatchSize
	// ModelFLOPs is model_flops: floating-point operations of the model per GPU, as the engine estimates them.
	ModelFLOPs
	// HBMBytes is hbm_bytes: bytes moved to and from GPU memory per GPU, as the engine estimates them.
	HBMBytes
	// SpecDraftTokens is spec_draft_tokens: tokens that speculation drafted.
	SpecDraftTokens
	// SpecAcceptedTokens is spec_accepted_tokens: drafted tokens that were accepted.
	SpecAcceptedTokens
	// SpecAcceptance is spec_acceptance: share of drafted tokens that were accepted.
	SpecAcceptance
	// KVTransferTime is kv_transfer_time: one transfer of KV cache between engines or tiers.
	KVTransferTime
	// KVTransferBytes is kv_transfer_bytes: bytes of KV cache moved between engines or tiers.
	KVTransferBytes
	// KVTransferFailures is kv_transfer_failures: KV transfers that failed or expired.
	KVTransferFailures
	// KVEvictions is kv_evictions: tokens evicted from the KV cache.
	KVEvictions
	// EngineSleeping is engine_sleeping: 1 while the engine sleeps and serves nothing.
	EngineSleeping
	// EngineCPU is engine_cpu: processor time of the server's process.
	EngineCPU
	// EngineStart is engine_start: unix time at which the server's process started: a change is a restart.
	EngineStart
	// PrefillQueue is prefill_queue: requests queued for prefill in disaggregated serving.
	PrefillQueue
	// TransferQueue is transfer_queue: requests that wait for a KV transfer.
	TransferQueue
	// GatewayInFlight is gateway.requests_in_flight: requests inside the gateway.
	GatewayInFlight
	// GatewayWaiting is gateway.requests_waiting: requests held in the gateway's own queue.
	GatewayWaiting
	// GatewayRequests is gateway.requests: requests that the gateway took.
	GatewayRequests
	// GatewayErrors is gateway.errors: requests that failed at or behind the gateway.
	GatewayErrors
	// GatewayTTFT is gateway.ttft: time to first token as the gateway sees it.
	GatewayTTFT
	// GatewayTPOT is gateway.tpot: time per output token as the gateway sees it.
	GatewayTPOT
	// GatewayE2E is gateway.e2e: whole request as the gateway sees it.
	GatewayE2E
	// GatewayOverhead is gateway.overhead: time that the gateway itself adds.
	GatewayOverhead
	// GatewayQueueTime is gateway.queue_time: time in the gateway's own queue.
	GatewayQueueTime
	// GatewayPromptTokens is gateway.prompt_tokens: prompt tokens as the gateway counts them.
	GatewayPromptTokens
	// GatewayOutputTokens is gateway.output_tokens: output tokens as the gateway counts them.
	GatewayOutputTokens
	// GatewayCachedTokens is gateway.cached_tokens: prompt tokens that came from a cache, as the gateway counts them.
	GatewayCachedTokens
	// GatewayBackends is gateway.backends: servers that the gateway holds ready.
	GatewayBackends
	// GatewaySaturation is gateway.saturation: saturation of the pool as the gateway computes it.
	GatewaySaturation
	// GPUUtil is gpu_util: share of time in which at least one kernel was resident: not a measure of load.
	GPUUtil
	// GREngineActive is gr_engine_active: share of time in which the compute engine was busy.
	GREngineActive
	// SMActive is sm_active: share of time in which a warp was resident, over all SMs.
	SMActive
	// SMOccupancy is sm_occupancy: resident warps over the most that fit.
	SMOccupancy
	// TensorActive is tensor_active: share of time in which the matrix units worked.
	TensorActive
	// DRAMActive is dram_active: share of time in which the memory interface was busy: about 0.8 is the practical peak.
	DRAMActive
	// MemCopyUtil is mem_copy_util: share of time in which memory was read or written: not bandwidth.
	MemCopyUtil
	// FBUsed is fb_used: device memory in use; engines allocate ahead, so it says nothing of KV pressure.
	FBUsed
	// FBTotal is fb_total: device memory.
	FBTotal
	// Power is power: electrical power.
	Power
	// PowerLimit is power_limit: power at which the device throttles itself.
	PowerLimit
	// Energy is energy: electrical energy used so far.
	Energy
	// SMClock is sm_clock: clock of the compute units.
	SMClock
	// SMClockMax is sm_clock_max: highest clock of the compute units.
	SMClockMax
	// MemClock is mem_clock: clock of the memory.
	MemClock
	// GPUTemp is gpu_temp: temperature of the device.
	GPUTemp
	// MemTemp is mem_temp: temperature of its memory.
	MemTemp
	// Throttled is throttled: 1 while power, heat or a fault holds the clocks down.
	Throttled
	// ThrottledTime is throttled_time: time for which power, heat or a fault held the clocks down.
	ThrottledTime
	// GPUErrors is gpu_errors: errors that the device has counted.
	GPUErrors
	// XID is xid: code of the last error, 0 for none: a change is an error.
	XID
	// NVLinkTx is nvlink_tx: bytes sent over the links between accelerators.
	NVLinkTx
	// NVLinkRx is nvlink_rx: bytes received over the links between accelerators.
	NVLinkRx
	// NVLinkTxBytes is nvlink_tx_bytes: bytes sent over the links between accelerators so far.
	NVLinkTxBytes
	// NVLinkRxBytes is nvlink_rx_bytes: bytes received over the links between accelerators so far.
	NVLinkRxBytes
	// PCIeTx is pcie_tx: bytes sent over PCIe.
	PCIeTx
	// PCIeRx is pcie_rx: bytes received over PCIe.
	PCIeRx
	// PCIeTxBytes is pcie_tx_bytes: bytes sent over PCIe so far.
	PCIeTxBytes
	// PCIeRxBytes is pcie_rx_bytes: bytes received over PCIe so far.
	PCIeRxBytes
	// NetTx is net_tx: bytes sent by network interfaces.
	NetTx
	// NetRx is net_rx: bytes received by network interfaces.
	NetRx
	// NetSpeed is net_speed: speed of network interfaces.
	NetSpeed
	// NetErrors is net_errors: packets in error or dropped.
	NetErrors
	// RDMATx is rdma_tx: bytes sent over RDMA ports.
	RDMATx
	// RDMARx is rdma_rx: bytes received over RDMA ports.
	RDMARx
	// RDMASpeed is rdma_speed: speed of RDMA ports.
	RDMASpeed
	// RDMACongestion is rdma_congestion: congestion notifications and marked packets.
	RDMACongestion
	// RDMAPause is rdma_pause: time for which priority flow control paused a port.
	RDMAPause
	// RDMARetries is rdma_retries: packets out of sequence, timed out or sent again.
	RDMARetries
	// HostCPU is host_cpu: processor time of the host that was not idle.
	HostCPU
	// HostCPUs is host_cpus: processors of the host.
	HostCPUs
	// HostLoad is host_load: load average over one minute.
	HostLoad
	// HostMemAvailable is host_mem_available: memory of the host that is available.
	HostMemAvailable
	// HostMemTotal is host_mem_total: memory of the host.
	HostMemTotal
	// HostPressureCPU is host_pressure_cpu: time for which tasks waited for a processor.
	HostPressureCPU
	// HostPressureMemory is host_pressure_memory: time for which tasks waited for memory.
	HostPressureMemory
	// HostPressureIO is host_pressure_io: time for which tasks waited for a disk.
	HostPressureIO
	// TCPRetransmits is tcp_retransmits: TCP segments sent again.
	TCPRetransmits
	// TCPSegmentsOut is tcp_segments_out: TCP segments sent.
	TCPSegmentsOut
	// TCPListenDrops is tcp_listen_drops: connections dropped because nobody accepted them.
	TCPListenDrops
	// ScrapeTime is scrape_time: how long reading the source took.
	ScrapeTime
	// ScrapeBytes is scrape_bytes: size of what was read.
	ScrapeBytes
	// ScrapeSeries is scrape_series: series in what was read.
	ScrapeSeries
	// ScrapeUp is scrape_up: 1 when reading succeeded, 0 when it failed.
	ScrapeUp

	count
)

// The names and meanings follow docs/metrics.md (client) and what the engines and exporters themselves publish
// (everything else); docs/telemetry-sources.md says which page gives which.
var catalogue = [count]Def{
	ClientUsers:          {ID: ClientUsers, Name: "client.users", Unit: "users", Kind: Gauge, Combine: Sum, Group: Client, Help: "users at work: in a request, thinking or waiting"},
	ClientSessions:       {ID: ClientSessions, Name: "client.sessions_in_flight", Unit: "sessions", Kind: Gauge, Combine: Sum, Group: Client, Help: "sessions that have begun and not ended"},
	ClientInFlight:       {ID: ClientInFlight, Name: "client.requests_in_flight", Unit: "requests", Kind: Gauge, Combine: Sum, Group: Client, Help: "requests that have started and not ended"},
	ClientWaitingFirst:   {ID: ClientWaitingFirst, Name: "client.waiting_first_token", Unit: "requests", Kind: Gauge, Combine: Sum, Group: Client, Help: "requests in flight that have had no token yet"},
	ClientDecoding:       {ID: ClientDecoding, Name: "client.decoding", Unit: "requests", Kind: Gauge, Combine: Sum, Group: Client, Help: "requests in flight that have had a token"},
	ClientScheduled:      {ID: ClientScheduled, Name: "client.requests_scheduled", Unit: "requests", Kind: Counter, Combine: Sum, Group: Client, Help: "requests that the load profile wanted to start"},
	ClientSent:           {ID: ClientSent, Name: "client.requests_sent", Unit: "requests", Kind: Counter, Combine: Sum, Group: Client, Help: "requests that started"},
	ClientOK:             {ID: ClientOK, Name: "client.requests_ok", Unit: "requests", Kind: Counter, Combine: Sum, Group: Client, Help: "requests that ended well, at their end"},
	ClientErrors:         {ID: ClientErrors, Name: "client.requests_failed", Unit: "requests", Kind: Counter, Combine: Sum, Group: Client, Help: "requests that failed, at their end"},
	ClientCancelled:      {ID: ClientCancelled, Name: "client.requests_cancelled", Unit: "requests", Kind: Counter, Combine: Sum, Group: Client, Help: "requests that their user abandoned, at their end"},
	ClientPromptTokens:   {ID: ClientPromptTokens, Name: "client.prompt_tokens", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Client, Help: "prompt tokens of requests, counted at their first token"},
	ClientOutputTokens:   {ID: ClientOutputTokens, Name: "client.output_tokens", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Client, Help: "output tokens, at the time of the event that carried them"},
	ClientTTFT:           {ID: ClientTTFT, Name: "client.ttft", Unit: "s", Kind: Distribution, Combine: Sum, Group: Client, Help: "time to first token, at the first token"},
	ClientTPOT:           {ID: ClientTPOT, Name: "client.tpot", Unit: "s", Kind: Distribution, Combine: Sum, Group: Client, Help: "time per output token, at the end of the request"},
	ClientITL:            {ID: ClientITL, Name: "client.itl", Unit: "s", Kind: Distribution, Combine: Sum, Group: Client, Help: "inter-token latency, at each token"},
	ClientE2E:            {ID: ClientE2E, Name: "client.e2e", Unit: "s", Kind: Distribution, Combine: Sum, Group: Client, Help: "whole response, at its end"},
	ClientSendLag:        {ID: ClientSendLag, Name: "client.send_lag", Unit: "s", Kind: Distribution, Combine: Sum, Group: Client, Help: "how late the client started requests, at their start"},
	ClientReadLag:        {ID: ClientReadLag, Name: "client.read_lag", Unit: "s", Kind: Distribution, Combine: Sum, Group: Client, Help: "mean lag of reading behind the kernel of a request, at its end"},
	ClientCanaryLag:      {ID: ClientCanaryLag, Name: "client.canary_lag", Unit: "s", Kind: Distribution, Combine: Sum, Group: Client, Help: "lag of the loopback canary"},
	ClientCPU:            {ID: ClientCPU, Name: "client.cpu", Unit: "1", Kind: Gauge, Combine: Mean, Group: Client, Help: "processor time of the client over that of the cores it may use"},
	RequestsRunning:      {ID: RequestsRunning, Name: "requests_running", Unit: "requests", Kind: Gauge, Combine: Sum, Group: Engine, Help: "requests in the running batch"},
	RequestsWaiting:      {ID: RequestsWaiting, Name: "requests_waiting", Unit: "requests", Kind: Gauge, Combine: Sum, Group: Engine, Help: "requests that wait to be scheduled"},
	WaitingDeferred:      {ID: WaitingDeferred, Name: "waiting_deferred", Unit: "requests", Kind: Gauge, Combine: Sum, Group: Engine, Help: "waiting requests held by something else than capacity: adapters, transfers, grammars"},
	KVCacheUsage:         {ID: KVCacheUsage, Name: "kv_cache_usage", Unit: "1", Kind: Gauge, Combine: Mean, Group: Engine, Help: "share of the KV cache that active sequences hold; blocks that are only cached count as free"},
	KVCapacity:           {ID: KVCapacity, Name: "kv_capacity", Unit: "tokens", Kind: Constant, Combine: Sum, Group: Engine, Help: "tokens that the KV cache can hold"},
	KVUsedTokens:         {ID: KVUsedTokens, Name: "kv_used_tokens", Unit: "tokens", Kind: Gauge, Combine: Sum, Group: Engine, Help: "tokens in the KV cache"},
	MaxConcurrency:       {ID: MaxConcurrency, Name: "max_concurrency", Unit: "requests", Kind: Constant, Combine: Sum, Group: Engine, Help: "most requests that may run at once"},
	PrefixCacheQueries:   {ID: PrefixCacheQueries, Name: "prefix_cache_queries", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Engine, Help: "prompt tokens looked up in the prefix cache"},
	PrefixCacheHits:      {ID: PrefixCacheHits, Name: "prefix_cache_hits", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Engine, Help: "prompt tokens found in the prefix cache"},
	PrefixCacheHitRatio:  {ID: PrefixCacheHitRatio, Name: "prefix_cache_hit_ratio", Unit: "1", Kind: Ratio, Combine: Mean, Group: Engine, Part: PrefixCacheHits, Whole: PrefixCacheQueries, Help: "share of looked-up prompt tokens that the prefix cache held"},
	ExternalKVQueries:    {ID: ExternalKVQueries, Name: "external_kv_queries", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Engine, Help: "tokens looked up in a KV store outside the GPU"},
	ExternalKVHits:       {ID: ExternalKVHits, Name: "external_kv_hits", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Engine, Help: "tokens found in a KV store outside the GPU"},
	ExternalKVHitRatio:   {ID: ExternalKVHitRatio, Name: "external_kv_hit_ratio", Unit: "1", Kind: Ratio, Combine: Mean, Group: Engine, Part: ExternalKVHits, Whole: ExternalKVQueries, Help: "share of looked-up tokens that the outer KV store held"},
	Preemptions:          {ID: Preemptions, Name: "preemptions", Unit: "events", Kind: Counter, Combine: Sum, Group: Engine, Help: "running requests put back into the queue for want of KV cache"},
	RequestsPaused:       {ID: RequestsPaused, Name: "requests_paused", Unit: "requests", Kind: Gauge, Combine: Sum, Group: Engine, Help: "requests that lost their place in the batch and wait for memory"},
	PromptTokens:         {ID: PromptTokens, Name: "prompt_tokens", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Engine, Help: "prompt tokens, cached ones included"},
	PromptTokensCached:   {ID: PromptTokensCached, Name: "prompt_tokens_cached", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Engine, Help: "prompt tokens that came from a cache"},
	PromptTokensComputed: {ID: PromptTokensComputed, Name: "prompt_tokens_computed", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Engine, Help: "prompt tokens that went through the model"},
	GenerationTokens:     {ID: GenerationTokens, Name: "generation_tokens", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Engine, Help: "generated tokens"},
	RequestsFinished:     {ID: RequestsFinished, Name: "requests_finished", Unit: "requests", Kind: Counter, Combine: Sum, Group: Engine, Help: "requests that ended as asked: stop or length"},
	RequestsFailed:       {ID: RequestsFailed, Name: "requests_failed", Unit: "requests", Kind: Counter, Combine: Sum, Group: Engine, Help: "requests that ended in an error or were aborted"},
	QueueTime:            {ID: QueueTime, Name: "queue_time", Unit: "s", Kind: Distribution, Combine: Sum, Group: Engine, Help: "from queued to first scheduled"},
	PrefillTime:          {ID: PrefillTime, Name: "prefill_time", Unit: "s", Kind: Distribution, Combine: Sum, Group: Engine, Help: "from first scheduled to first token"},
	DecodeTime:           {ID: DecodeTime, Name: "decode_time", Unit: "s", Kind: Distribution, Combine: Sum, Group: Engine, Help: "from first to last token"},
	InferenceTime:        {ID: InferenceTime, Name: "inference_time", Unit: "s", Kind: Distribution, Combine: Sum, Group: Engine, Help: "from first scheduled to last token"},
	TTFT:                 {ID: TTFT, Name: "ttft", Unit: "s", Kind: Distribution, Combine: Sum, Group: Engine, Help: "time to first token as the engine sees it"},
	ITL:                  {ID: ITL, Name: "itl", Unit: "s", Kind: Distribution, Combine: Sum, Group: Engine, Help: "time between outputs as the engine sees it"},
	TPOT:                 {ID: TPOT, Name: "tpot", Unit: "s", Kind: Distribution, Combine: Sum, Group: Engine, Help: "mean time per output token of a request as the engine sees it"},
	E2E:                  {ID: E2E, Name: "e2e", Unit: "s", Kind: Distribution, Combine: Sum, Group: Engine, Help: "whole request as the engine sees it"},
	StepTokens:           {ID: StepTokens, Name: "step_tokens", Unit: "tokens", Kind: Distribution, Combine: Sum, Group: Engine, Help: "tokens of one scheduler step"},
	EngineSteps:          {ID: EngineSteps, Name: "engine_steps", Unit: "steps", Kind: Counter, Combine: Sum, Group: Engine, Help: "scheduler steps"},
	StepTime:             {ID: StepTime, Name: "step_time", Unit: "s", Kind: Distribution, Combine: Sum, Group: Engine, Help: "length of one scheduler step"},
	BatchSize:            {ID: BatchSize, Name: "batch_size", Unit: "requests", Kind: Distribution, Combine: Sum, Group: Engine, Help: "requests of one batch or step"},
	ModelFLOPs:           {ID: ModelFLOPs, Name: "model_flops", Unit: "FLOP", Kind: Counter, Combine: Sum, Group: Engine, Help: "floating-point operations of the model per GPU, as the engine estimates them"},
	HBMBytes:             {ID: HBMBytes, Name: "hbm_bytes", Unit: "bytes", Kind: Counter, Combine: Sum, Group: Engine, Help: "bytes moved to and from GPU memory per GPU, as the engine estimates them"},
	SpecDraftTokens:      {ID: SpecDraftTokens, Name: "spec_draft_tokens", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Engine, Help: "tokens that speculation drafted"},
	SpecAcceptedTokens:   {ID: SpecAcceptedTokens, Name: "spec_accepted_tokens", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Engine, Help: "drafted tokens that were accepted"},
	SpecAcceptance:       {ID: SpecAcceptance, Name: "spec_acceptance", Unit: "1", Kind: Ratio, Combine: Mean, Group: Engine, Part: SpecAcceptedTokens, Whole: SpecDraftTokens, Help: "share of drafted tokens that were accepted"},
	KVTransferTime:       {ID: KVTransferTime, Name: "kv_transfer_time", Unit: "s", Kind: Distribution, Combine: Sum, Group: Engine, Help: "one transfer of KV cache between engines or tiers"},
	KVTransferBytes:      {ID: KVTransferBytes, Name: "kv_transfer_bytes", Unit: "bytes", Kind: Counter, Combine: Sum, Group: Engine, Help: "bytes of KV cache moved between engines or tiers"},
	KVTransferFailures:   {ID: KVTransferFailures, Name: "kv_transfer_failures", Unit: "events", Kind: Counter, Combine: Sum, Group: Engine, Help: "KV transfers that failed or expired"},
	KVEvictions:          {ID: KVEvictions, Name: "kv_evictions", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Engine, Help: "tokens evicted from the KV cache"},
	EngineSleeping:       {ID: EngineSleeping, Name: "engine_sleeping", Unit: "1", Kind: Gauge, Combine: Max, Group: Engine, Help: "1 while the engine sleeps and serves nothing"},
	EngineCPU:            {ID: EngineCPU, Name: "engine_cpu", Unit: "s", Kind: Counter, Combine: Sum, Group: Engine, Help: "processor time of the server's process"},
	EngineStart:          {ID: EngineStart, Name: "engine_start", Unit: "s", Kind: Gauge, Combine: Max, Group: Engine, Help: "unix time at which the server's process started: a change is a restart"},
	PrefillQueue:         {ID: PrefillQueue, Name: "prefill_queue", Unit: "requests", Kind: Gauge, Combine: Sum, Group: Engine, Help: "requests queued for prefill in disaggregated serving"},
	TransferQueue:        {ID: TransferQueue, Name: "transfer_queue", Unit: "requests", Kind: Gauge, Combine: Sum, Group: Engine, Help: "requests that wait for a KV transfer"},
	GatewayInFlight:      {ID: GatewayInFlight, Name: "gateway.requests_in_flight", Unit: "requests", Kind: Gauge, Combine: Sum, Group: Gateway, Help: "requests inside the gateway"},
	GatewayWaiting:       {ID: GatewayWaiting, Name: "gateway.requests_waiting", Unit: "requests", Kind: Gauge, Combine: Sum, Group: Gateway, Help: "requests held in the gateway's own queue"},
	GatewayRequests:      {ID: GatewayRequests, Name: "gateway.requests", Unit: "requests", Kind: Counter, Combine: Sum, Group: Gateway, Help: "requests that the gateway took"},
	GatewayErrors:        {ID: GatewayErrors, Name: "gateway.errors", Unit: "requests", Kind: Counter, Combine: Sum, Group: Gateway, Help: "requests that failed at or behind the gateway"},
	GatewayTTFT:          {ID: GatewayTTFT, Name: "gateway.ttft", Unit: "s", Kind: Distribution, Combine: Sum, Group: Gateway, Help: "time to first token as the gateway sees it"},
	GatewayTPOT:          {ID: GatewayTPOT, Name: "gateway.tpot", Unit: "s", Kind: Distribution, Combine: Sum, Group: Gateway, Help: "time per output token as the gateway sees it"},
	GatewayE2E:           {ID: GatewayE2E, Name: "gateway.e2e", Unit: "s", Kind: Distribution, Combine: Sum, Group: Gateway, Help: "whole request as the gateway sees it"},
	GatewayOverhead:      {ID: GatewayOverhead, Name: "gateway.overhead", Unit: "s", Kind: Distribution, Combine: Sum, Group: Gateway, Help: "time that the gateway itself adds"},
	GatewayQueueTime:     {ID: GatewayQueueTime, Name: "gateway.queue_time", Unit: "s", Kind: Distribution, Combine: Sum, Group: Gateway, Help: "time in the gateway's own queue"},
	GatewayPromptTokens:  {ID: GatewayPromptTokens, Name: "gateway.prompt_tokens", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Gateway, Help: "prompt tokens as the gateway counts them"},
	GatewayOutputTokens:  {ID: GatewayOutputTokens, Name: "gateway.output_tokens", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Gateway, Help: "output tokens as the gateway counts them"},
	GatewayCachedTokens:  {ID: GatewayCachedTokens, Name: "gateway.cached_tokens", Unit: "tokens", Kind: Counter, Combine: Sum, Group: Gateway, Help: "prompt tokens that came from a cache, as the gateway counts them"},
	GatewayBackends:      {ID: GatewayBackends, Name: "gateway.backends", Unit: "servers", Kind: Gauge, Combine: Sum, Group: Gateway, Help: "servers that the gateway holds ready"},
	GatewaySaturation:    {ID: GatewaySaturation, Name: "gateway.saturation", Unit: "1", Kind: Gauge, Combine: Max, Group: Gateway, Help: "saturation of the pool as the gateway computes it"},
	GPUUtil:              {ID: GPUUtil, Name: "gpu_util", Unit: "1", Kind: Gauge, Combine: Mean, Group: Accelerator, Help: "share of time in which at least one kernel was resident: not a measure of load"},
	GREngineActive:       {ID: GREngineActive, Name: "gr_engine_active", Unit: "1", Kind: Gauge, Combine: Mean, Group: Accelerator, Help: "share of time in which the compute engine was busy"},
	SMActive:             {ID: SMActive, Name: "sm_active", Unit: "1", Kind: Gauge, Combine: Mean, Group: Accelerator, Help: "share of time in which a warp was resident, over all SMs"},
	SMOccupancy:          {ID: SMOccupancy, Name: "sm_occupancy", Unit: "1", Kind: Gauge, Combine: Mean, Group: Accelerator, Help: "resident warps over the most that fit"},
	TensorActive:         {ID: TensorActive, Name: "tensor_active", Unit: "1", Kind: Gauge, Combine: Mean, Group: Accelerator, Help: "share of time in which the matrix units worked"},
	DRAMActive:           {ID: DRAMActive, Name: "dram_active", Unit: "1", Kind: Gauge, Combine: Mean, Group: Accelerator, Help: "share of time in which the memory interface was busy: about 0.8 is the practical peak"},
	MemCopyUtil:          {ID: MemCopyUtil, Name: "mem_copy_util", Unit: "1", Kind: Gauge, Combine: Mean, Group: Accelerator, Help: "share of time in which memory was read or written: not bandwidth"},
	FBUsed:               {ID: FBUsed, Name: "fb_used", Unit: "bytes", Kind: Gauge, Combine: Sum, Group: Accelerator, Help: "device memory in use; engines allocate ahead, so it says nothing of KV pressure"},
	FBTotal:              {ID: FBTotal, Name: "fb_total", Unit: "bytes", Kind: Constant, Combine: Sum, Group: Accelerator, Help: "device memory"},
	Power:                {ID: Power, Name: "power", Unit: "W", Kind: Gauge, Combine: Sum, Group: Accelerator, Help: "electrical power"},
	PowerLimit:           {ID: PowerLimit, Name: "power_limit", Unit: "W", Kind: Gauge, Combine: Sum, Group: Accelerator, Help: "power at which the device throttles itself"},
	Energy:               {ID: Energy, Name: "energy", Unit: "J", Kind: Counter, Combine: Sum, Group: Accelerator, Help: "electrical energy used so far"},
	SMClock:              {ID: SMClock, Name: "sm_clock", Unit: "Hz", Kind: Gauge, Combine: Mean, Group: Accelerator, Help: "clock of the compute units"},
	SMClockMax:           {ID: SMClockMax, Name: "sm_clock_max", Unit: "Hz", Kind: Constant, Combine: Mean, Group: Accelerator, Help: "highest clock of the compute units"},
	MemClock:             {ID: MemClock, Name: "mem_clock", Unit: "Hz", Kind: Gauge, Combine: Mean, Group: Accelerator, Help: "clock of the memory"},
	GPUTemp:              {ID: GPUTemp, Name: "gpu_temp", Unit: "C", Kind: Gauge, Combine: Max, Group: Accelerator, Help: "temperature of the device"},
	MemTemp:              {ID: MemTemp, Name: "mem_temp", Unit: "C", Kind: Gauge, Combine: Max, Group: Accelerator, Help: "temperature of its memory"},
	Throttled:            {ID: Throttled, Name: "throttled", Unit: "1", Kind: Gauge, Combine: Max, Group: Accelerator, Help: "1 while power, heat or a fault holds the clocks down"},
	ThrottledTime:        {ID: ThrottledTime, Name: "throttled_time", Unit: "s", Kind: Counter, Combine: Sum, Group: Accelerator, Help: "time for which power, heat or a fault held the clocks down"},
	GPUErrors:            {ID: GPUErrors, Name: "gpu_errors", Unit: "events", Kind: Counter, Combine: Sum, Group: Accelerator, Help: "errors that the device has counted"},
	XID:                  {ID: XID, Name: "xid", Unit: "code", Kind: Gauge, Combine: Max, Group: Accelerator, Help: "code of the last error, 0 for none: a change is an error"},
	NVLinkTx:             {ID: NVLinkTx, Name: "nvlink_tx", Unit: "bytes/s", Kind: Gauge, Combine: Sum, Group: Network, Help: "bytes sent over the links between accelerators"},
	NVLinkRx:             {ID: NVLinkRx, Name: "nvlink_rx", Unit: "bytes/s", Kind: Gauge, Combine: Sum, Group: Network, Help: "bytes received over the links between accelerators"},
	NVLinkTxBytes:        {ID: NVLinkTxBytes, Name: "nvlink_tx_bytes", Unit: "bytes", Kind: Counter, Combine: Sum, Group: Network, Help: "bytes sent over the links between accelerators so far"},
	NVLinkRxBytes:        {ID: NVLinkRxBytes, Name: "nvlink_rx_bytes", Unit: "bytes", Kind: Counter, Combine: Sum, Group: Network, Help: "bytes received over the links between accelerators so far"},
	PCIeTx:               {ID: PCIeTx, Name: "pcie_tx", Unit: "bytes/s", Kind: Gauge, Combine: Sum, Group: Network, Help: "bytes sent over PCIe"},
	PCIeRx:               {ID: PCIeRx, Name: "pcie_rx", Unit: "bytes/s", Kind: Gauge, Combine: Sum, Group: Network, Help: "bytes received over PCIe"},
	PCIeTxBytes:          {ID: PCIeTxBytes, Name: "pcie_tx_bytes", Unit: "bytes", Kind: Counter, Combine: Sum, Group: Network, Help: "bytes sent over PCIe so far"},
	PCIeRxBytes:          {ID: PCIeRxBytes, Name: "pcie_rx_bytes", Unit: "bytes", Kind: Counter, Combine: Sum, Group: Network, Help: "bytes received over PCIe so far"},
	NetTx:                {ID: NetTx, Name: "net_tx", Unit: "bytes", Kind: Counter, Combine: Sum, Group: Network, Help: "bytes sent by network interfaces"},
	NetRx:                {ID: NetRx, Name: "net_rx", Unit: "bytes", Kind: Counter, Combine: Sum, Group: Network, Help: "bytes received by network interfaces"},
	NetSpeed:             {ID: NetSpeed, Name: "net_speed", Unit: "bytes/s", Kind: Constant, Combine: Sum, Group: Network, Help: "speed of network interfaces"},
	NetErrors:            {ID: NetErrors, Name: "net_errors", Unit: "events", Kind: Counter, Combine: Sum, Group: Network, Help: "packets in error or dropped"},
	RDMATx:               {ID: RDMATx, Name: "rdma_tx", Unit: "bytes", Kind: Counter, Combine: Sum, Group: Network, Help: "bytes sent over RDMA ports"},
	RDMARx:               {ID: RDMARx, Name: "rdma_rx", Unit: "bytes", Kind: Counter, Combine: Sum, Group: Network, Help: "bytes received over RDMA ports"},
	RDMASpeed:            {ID: RDMASpeed, Name: "rdma_speed", Unit: "bytes/s", Kind: Constant, Combine: Sum, Group: Network, Help: "speed of RDMA ports"},
	RDMACongestion:       {ID: RDMACongestion, Name: "rdma_congestion", Unit: "events", Kind: Counter, Combine: Sum, Group: Network, Help: "congestion notifications and marked packets"},
	RDMAPause:            {ID: RDMAPause, Name: "rdma_pause", Unit: "s", Kind: Counter, Combine: Sum, Group: Network, Help: "time for which priority flow control paused a port"},
	RDMARetries:          {ID: RDMARetries, Name: "rdma_retries", Unit: "events", Kind: Counter, Combine: Sum, Group: Network, Help: "packets out of sequence, timed out or sent again"},
	HostCPU:              {ID: HostCPU, Name: "host_cpu", Unit: "s", Kind: Counter, Combine: Sum, Group: Host, Help: "processor time of the host that was not idle"},
	HostCPUs:             {ID: HostCPUs, Name: "host_cpus", Unit: "cores", Kind: Constant, Combine: Sum, Group: Host, Help: "processors of the host"},
	HostLoad:             {ID: HostLoad, Name: "host_load", Unit: "tasks", Kind: Gauge, Combine: Sum, Group: Host, Help: "load average over one minute"},
	HostMemAvailable:     {ID: HostMemAvailable, Name: "host_mem_available", Unit: "bytes", Kind: Gauge, Combine: Sum, Group: Host, Help: "memory of the host that is available"},
	HostMemTotal:         {ID: HostMemTotal, Name: "host_mem_total", Unit: "bytes", Kind: Constant, Combine: Sum, Group: Host, Help: "memory of the host"},
	HostPressureCPU:      {ID: HostPressureCPU, Name: "host_pressure_cpu", Unit: "s", Kind: Counter, Combine: Sum, Group: Host, Help: "time for which tasks waited for a processor"},
	HostPressureMemory:   {ID: HostPressureMemory, Name: "host_pressure_memory", Unit: "s", Kind: Counter, Combine: Sum, Group: Host, Help: "time for which tasks waited for memory"},
	HostPressureIO:       {ID: HostPressureIO, Name: "host_pressure_io", Unit: "s", Kind: Counter, Combine: Sum, Group: Host, Help: "time for which tasks waited for a disk"},
	TCPRetransmits:       {ID: TCPRetransmits, Name: "tcp_retransmits", Unit: "segments", Kind: Counter, Combine: Sum, Group: Host, Help: "TCP segments sent again"},
	TCPSegmentsOut:       {ID: TCPSegmentsOut, Name: "tcp_segments_out", Unit: "segments", Kind: Counter, Combine: Sum, Group: Host, Help: "TCP segments sent"},
	TCPListenDrops:       {ID: TCPListenDrops, Name: "tcp_listen_drops", Unit: "events", Kind: Counter, Combine: Sum, Group: Host, Help: "connections dropped because nobody accepted them"},
	ScrapeTime:           {ID: ScrapeTime, Name: "scrape_time", Unit: "s", Kind: Gauge, Combine: Max, Group: Scrape, Help: "how long reading the source took"},
	ScrapeBytes:          {ID: ScrapeBytes, Name: "scrape_bytes", Unit: "bytes", Kind: Gauge, Combine: Sum, Group: Scrape, Help: "size of what was read"},
	ScrapeSeries:         {ID: ScrapeSeries, Name: "scrape_series", Unit: "series", Kind: Gauge, Combine: Sum, Group: Scrape, Help: "series in what was read"},
	ScrapeUp:             {ID: ScrapeUp, Name: "scrape_up", Unit: "1", Kind: Gauge, Combine: Mean, Group: Scrape, Help: "1 when reading succeeded, 0 when it failed"},
}

var byName = func() map[string]ID {
	m := make(map[string]ID, count)
	for id := None + 1; id < count; id++ {
		m[catalogue[id].Name] = id
	}
	return m
}()

// Count is one more than the highest ID.
const Count = int(count)

// Def returns the definition of id, which must be a signal of the catalogue; the caller must not change it.
func (id ID) Def() *Def {
	if id == None || id >= count {
		panic("BUG: no such signal")
	}
	return &catalogue[id]
}

// RateUnit is the unit of how fast a counter grows, and of how many observations a
// distribution takes in.
func (d *Def) RateUnit() string {
	switch {
	case d.Kind == Distribution:
		return "1/s"
	case d.ID == HostCPU || d.ID == EngineCPU:
		return "cores"
	case d.Unit == "J":
		return "W"
	}
	return d.Unit + "/s"
}

// Highest returns the name under which the highest of several instances stands beside
// the mean of all, and an empty string where a signal has none: values that add up have
// no mean, and sm_clock_max is a signal of its own, of which the highest is itself.
func (d *Def) Highest() string {
	name := d.Name + "_max"
	if _, taken := byName[name]; d.Combine != Mean || taken || strings.HasSuffix(d.Name, "_max") {
		return ""
	}
	return name
}

// String returns the canonical name, and an empty string for no signal.
func (id ID) String() string {
	if id >= count {
		panic("BUG: no such signal")
	}
	return catalogue[id].Name
}

// Lookup returns the signal of a canonical name, and false when there is none.
func Lookup(name string) (ID, bool) {
	id, ok := byName[name]
	return id, ok
}

// All returns every definition in the order of the catalogue.
func All() []Def { return append([]Def(nil), catalogue[1:]...) }
