package twin

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// The bounds of vLLM's histograms (vllm/v1/metrics/loggers.py), and those of the
// instrumentation of its HTTP server.
var (
	firstTokenBounds = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	tokenBounds      = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBounds    = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	iterationBounds  = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	choicesBounds    = []float64{1, 2, 5, 10, 20}
	fineHTTPBounds   = []float64{.01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60}
	coarseHTTPBounds = []float64{.1, .5, 1}
)

// tokenCountBounds returns 1, 2, 5, 10 and so on up to the longest sequence.
func tokenCountBounds(longest int) []float64 {
	var all []float64
	for unit := 1; ; unit *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*unit > longest {
				return all
			}
			all = append(all, float64(m*unit))
		}
	}
}

// The families of histograms, in the order of the page.
const (
	histPrompt = iota
	histGeneration
	histIteration
	histMaxGeneration
	histChoices
	histMaxTokens
	histFirstToken
	histToken
	histTokenMean
	histE2E
	histQueue
	histInference
	histPrefill
	histDecode
	histComputed
	histCount
)

var histFamilies = [histCount]struct{ name, help string }{
	histPrompt:        {"request_prompt_tokens", "Number of prefill tokens processed."},
	histGeneration:    {"request_generation_tokens", "Number of generation tokens processed."},
	histIteration:     {"iteration_tokens_total", "Histogram of number of tokens per engine_step."},
	histMaxGeneration: {"request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens."},
	histChoices:       {"request_params_n", "Histogram of the n request parameter."},
	histMaxTokens:     {"request_params_max_tokens", "Histogram of the max_tokens request parameter."},
	histFirstToken:    {"time_to_first_token_seconds", "Histogram of time to first token in seconds."},
	histToken:         {"inter_token_latency_seconds", "Histogram of inter-token latency in seconds."},
	histTokenMean:     {"request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request."},
	histE2E:           {"e2e_request_latency_seconds", "Histogram of e2e request latency in seconds."},
	histQueue:         {"request_queue_time_seconds", "Histogram of time spent in WAITING phase for request."},
	histInference:     {"request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request."},
	histPrefill:       {"request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request."},
	histDecode:        {"request_decode_time_seconds", "Histogram of time spent in DECODE phase for request."},
	histComputed:      {"request_prefill_kv_computed_tokens", "Histogram of new KV tokens computed during prefill (excluding cached tokens)."},
}

// engineHists are one engine's histograms.
type engineHists [histCount]buckets

func newEngineHists(longest int) *engineHists {
	h := new(engineHists)
	counts := tokenCountBounds(longest)
	for i := range h {
		switch i {
		case histPrompt, histGeneration, histMaxGeneration, histMaxTokens, histComputed:
			h[i] = newBuckets(counts)
		case histIteration:
			h[i] = newBuckets(iterationBounds)
		case histChoices:
			h[i] = newBuckets(choicesBounds)
		case histFirstToken:
			h[i] = newBuckets(firstTokenBounds)
		case histToken, histTokenMean:
			h[i] = newBuckets(tokenBounds)
		default:
			h[i] = newBuckets(requestBounds)
		}
	}
	return h
}

// finished observes a sequence that has ended by itself or at its limit. Its latency
// goes up to when its end is sent, after whatever the way out takes.
func (h *engineHists) finished(a *Account, of *answer) {
	const s = 1e-9
	h[histPrompt].observe(float64(a.Prompt), 1)
	h[histComputed].observe(float64(a.Prompt-a.Cached), 1)
	h[histGeneration].observe(float64(a.Output), 1)
	h[histMaxTokens].observe(float64(of.limit), 1)
	h[histE2E].observe(s*(max(a.Finished, a.Sent, of.over)-float64(of.arrival)), 1)
	h[histQueue].observe(s*(a.Admitted-a.Arrival), 1)
	h[histInference].observe(s*(a.Finished-a.Admitted), 1)
	h[histPrefill].observe(s*(a.First-a.Admitted), 1)
	h[histDecode].observe(s*(a.Finished-a.First), 1)
	if a.Output > 1 {
		h[histTokenMean].observe(s*(a.Finished-a.First)/float64(a.Output-1), 1)
	}
}

// page is one engine as a scrape sees it.
type page struct {
	label string // its engine
	r     *replica
	hists engineHists
	work  Work
	// computed and cached are the tokens of the prompts that have had their first token;
	// each only grows, and they are read once for a page, whose parts have to add up.
	computed, cached float64
}

// appendMetrics appends the page of vLLM's V1 engine.
func (s *Server) appendMetrics(b []byte) []byte {
	e := &exposition{b: b, python: true}
	s.appendProcess(e)
	model := labels("model_name", s.model.Name)
	pages := make([]page, len(s.replicas))
	for i, r := range s.replicas {
		pages[i] = page{label: labels("engine", strconv.Itoa(r.index)), r: r}
		p := &pages[i]
		p.computed, p.cached = float64(r.state.computed.Load()), float64(r.state.cached.Load())
		r.logMu.Lock()
		for j := range r.hists {
			p.hists[j] = r.hists[j].copy()
		}
		p.work = r.worked.total
		r.logMu.Unlock()
	}
	started := unixSeconds(s.started())
	gauge := func(name, help, extra string, value func(p *page) float64) {
		if help != "" {
			e.family("vllm:"+name, "gauge", help)
		}
		for i := range pages {
			all := pages[i].label + "," + model
			if extra != "" {
				all += "," + extra
			}
			e.sample("vllm:"+name, all, value(&pages[i]))
		}
	}
	// A counter comes with the time when it was made. values holds pairs of a
	// label, which may be empty and whose name is above or below model_name, and
	// what reads it.
	type value struct {
		label string
		read  func(p *page) float64
	}
	counter := func(name, help string, values ...value) {
		for _, created := range []bool{false, true} {
			n := "vllm:" + name + "_total"
			if created {
				n = "vllm:" + name + "_created"
				e.family(n, "gauge", help)
			} else {
				e.family(n, "counter", help)
			}
			for i := range pages {
				for _, v := range values {
					all := pages[i].label + "," + model
					switch {
					case v.label > model:
						all += "," + v.label
					case v.label != "":
						all = pages[i].label + "," + v.label + "," + model
					}
					if created {
						e.sample(n, all, started)
					} else {
						e.sample(n, all, v.read(&pages[i]))
					}
				}
			}
		}
	}
	none := func(*page) float64 { return 0 }
	counter("estimated_flops_per_gpu", "Estimated number of floating point operations per GPU (for Model Flops Utilization calculations).",
		value{"", func(p *page) float64 { return p.work.FLOPs }})
	counter("estimated_read_bytes_per_gpu", "Estimated number of bytes read from memory per GPU (for Model Flops Utilization calculations).",
		value{"", func(p *page) float64 { return p.work.ReadBytes }})
	counter("estimated_write_bytes_per_gpu", "Estimated number of bytes written to memory per GPU (for Model Flops Utilization calculations).",
		value{"", func(p *page) float64 { return p.work.WriteBytes }})
	gauge("num_requests_running", "Number of requests in model execution batches.", "", func(p *page) float64 { return float64(p.r.state.running.Load()) })
	waiting := func(p *page) float64 { return float64(p.r.state.waiting.Load()) }
	gauge("num_requests_waiting", "Number of requests waiting to be processed.", "", waiting)
	gauge("num_requests_waiting_by_reason", "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
		labels("reason", "capacity"), waiting)
	gauge("num_requests_waiting_by_reason", "", labels("reason", "deferred"), none)
	gauge("engine_sleep_state", "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
		labels("sleep_state", "awake"), func(*page) float64 { return 1 })
	gauge("engine_sleep_state", "", labels("sleep_state", "weights_offloaded"), none)
	gauge("engine_sleep_state", "", labels("sleep_state", "discard_all"), none)
	gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", "", func(p *page) float64 { return 1 - float64(p.r.state.free.Load())/float64(s.blocks) })
	queries := func(p *page) float64 { return float64(p.r.state.queries.Load()) }
	hits := func(p *page) float64 { return float64(p.r.state.hits.Load()) }
	cached := func(p *page) float64 { return p.cached }
	counter("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", value{"", queries})
	counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", value{"", hits})
	counter("external_prefix_cache_queries", "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried tokens.", value{"", none})
	counter("external_prefix_cache_hits", "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached tokens.", value{"", none})
	counter("mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items.", value{"", none})
	counter("mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.", value{"", none})
	counter("num_preemptions", "Cumulative number of preemption from the engine.", value{"", func(p *page) float64 { return float64(p.r.state.preemptions.Load()) }})
	counter("prompt_tokens", "Number of prefill tokens processed.", value{"", func(p *page) float64 { return p.computed + p.cached }})
	counter("prompt_tokens_by_source", "Number of prompt tokens by source.",
		value{labels("source", "local_compute"), func(p *page) float64 { return p.computed }},
		value{labels("source", "local_cache_hit"), cached},
		value{labels("source", "external_kv_transfer"), none})
	counter("prompt_tokens_cached", "Number of cached prompt tokens (local + external).", value{"", cached})
	counter("generation_tokens", "Number of generation tokens processed.", value{"", func(p *page) float64 { return float64(p.r.state.output.Load()) }})
	reason := func(name string, read func(p *page) float64) value {
		return value{labels("finished_reason", name), read}
	}
	counter("request_success", "Count of successfully processed requests.",
		reason("stop", func(p *page) float64 { return float64(p.r.state.stop.Load()) }),
		reason("length", func(p *page) float64 { return float64(p.r.state.length.Load()) }),
		reason("abort", func(p *page) float64 { return float64(p.r.state.abort.Load()) }),
		reason("error", none), reason("repetition", none))
	for i, f := range histFamilies {
		e.family("vllm:"+f.name, "histogram", f.help)
		for j := range pages {
			e.histogram("vllm:"+f.name, pages[j].label, model, &pages[j].hists[i])
		}
		e.family("vllm:"+f.name+"_created", "gauge", f.help)
		for j := range pages {
			e.sample("vllm:"+f.name+"_created", pages[j].label+","+model, started)
		}
	}
	if s.cfg.Step == 0 {
		e.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
		caching := "False"
		if s.caching() {
			caching = "True"
		}
		for i := range pages {
			e.sample("vllm:cache_config_info", labels(
				"block_size", strconv.Itoa(s.cluster.Engine.BlockTokens), "cache_dtype", "auto", "enable_prefix_caching", caching, "engine", strconv.Itoa(i),
				"gpu_memory_utilization", strconv.FormatFloat(s.cluster.Layout.utilization(), 'g', -1, 64), "num_gpu_blocks", strconv.Itoa(s.blocks)), 1)
		}
	}
	s.http.append(e, started)
	return e.b
}

// unixSeconds is t as the pages say it.
func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// appendProcess appends what a client of Prometheus says of its process.
func (s *Server) appendProcess(e *exposition) {
	e.family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.")
	e.sample("process_start_time_seconds", "", unixSeconds(s.started()))
	if t, ok := processTime(); ok {
		e.family("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.")
		e.sample("process_cpu_seconds_total", "", t.Seconds())
	}
}

// httpFigures is what the HTTP server counts, by path, method and class of
// status.
type httpFigures struct {
	mu     sync.Mutex // guards what follows
	fine   buckets
	routes []httpRoute // few, in order of first use
}

type httpRoute struct {
	handler, method   string
	statuses          [6]int64 // by hundreds
	duration          buckets
	received, replied float64 // bytes of bodies with a stated length
}

func newHTTPFigures() *httpFigures { return &httpFigures{fine: newBuckets(fineHTTPBounds)} }

// observe counts one answered request.
func (h *httpFigures) observe(x *exchange, status int, ns int64, replied int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.routes, func(r httpRoute) bool { return r.handler == x.handler && r.method == x.method })
	if i < 0 {
		i = len(h.routes)
		h.routes = append(h.routes, httpRoute{handler: x.handler, method: x.method, duration: newBuckets(coarseHTTPBounds)})
	}
	r := &h.routes[i]
	r.statuses[min(max(status/100, 0), 5)]++
	r.duration.observe(float64(ns)/1e9, 1)
	h.fine.observe(float64(ns)/1e9, 1)
	r.received += float64(x.received)
	r.replied += float64(replied)
}

func (h *httpFigures) append(e *exposition, started float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	const requests = "Total number of requests by method, status and handler."
	each := func(name, kind, help string, write func(name string, r *httpRoute)) {
		e.family(name, kind, help)
		for i := range h.routes {
			write(name, &h.routes[i])
		}
	}
	statuses := func(name string, value func(n int64) float64) func(string, *httpRoute) {
		return func(_ string, r *httpRoute) {
			for i, n := range r.statuses {
				if n > 0 {
					e.sample(name, labels("handler", r.handler, "method", r.method, "status", strconv.Itoa(i)+"xx"), value(n))
				}
			}
		}
	}
	each("http_requests_total", "counter", requests, statuses("http_requests_total", func(n int64) float64 { return float64(n) }))
	each("http_requests_created", "gauge", requests, statuses("http_requests_created", func(int64) float64 { return started }))
	// The next two know the handler alone.
	byHandler := map[string][3]float64{}
	var handlers []string
	for i := range h.routes {
		r := &h.routes[i]
		v, ok := byHandler[r.handler]
		if !ok {
			handlers = append(handlers, r.handler)
		}
		byHandler[r.handler] = [3]float64{v[0] + float64(sumOf(r.duration.counts)), v[1] + r.received, v[2] + r.replied}
	}
	for i, f := range []struct{ name, help string }{
		{"http_request_size_bytes", "Content length of incoming requests by handler. Only value of header is respected. Otherwise ignored. No percentile calculated. "},
		{"http_response_size_bytes", "Content length of outgoing responses by handler. Only value of header is respected. Otherwise ignored. No percentile calculated. "},
	} {
		e.family(f.name, "summary", f.help)
		for _, n := range handlers {
			e.sample(f.name+"_count", labels("handler", n), byHandler[n][0])
			e.sample(f.name+"_sum", labels("handler", n), byHandler[n][i+1])
		}
		e.family(f.name+"_created", "gauge", f.help)
		for _, n := range handlers {
			e.sample(f.name+"_created", labels("handler", n), started)
		}
	}
	const fine = "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. "
	e.family("http_request_duration_highr_seconds", "histogram", fine)
	e.histogram("http_request_duration_highr_seconds", "", "", &h.fine)
	e.family("http_request_duration_highr_seconds_created", "gauge", fine)
	e.sample("http_request_duration_highr_seconds_created", "", started)
	const coarse = "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. "
	each("http_request_duration_seconds", "histogram", coarse, func(name string, r *httpRoute) {
		e.histogram(name, labels("handler", r.handler), labels("method", r.method), &r.duration)
	})
	each("http_request_duration_seconds_created", "gauge", coarse, func(name string, r *httpRoute) {
		e.sample(name, labels("handler", r.handler, "method", r.method), started)
	})
}

func sumOf(counts []uint64) (sum uint64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// exchange is one request as the HTTP figures know it.
type exchange struct {
	handler, method string
	began           int64 // by the server's clock
	received        int64 // bytes of body
}
