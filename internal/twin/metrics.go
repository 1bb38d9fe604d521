package twin

import (
	"fmt"
	"strconv"
)

// appendMetrics appends the exposition under the names of vLLM's V1 engine.
func (s *Server) appendMetrics(b []byte) []byte {
	family := func(name, kind, help string, value func(r *replica) float64, labels ...string) {
		if kind != "" {
			b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		}
		for _, r := range s.replicas {
			b = fmt.Appendf(b, "%s{engine=\"%d\",model_name=%q", name, r.index, s.model.Name)
			for i := 0; i+1 < len(labels); i += 2 {
				b = fmt.Appendf(b, ",%s=%q", labels[i], labels[i+1])
			}
			b = append(b, "} "...)
			b = strconv.AppendFloat(b, value(r), 'g', -1, 64)
			b = append(b, '\n')
		}
	}
	family("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", func(r *replica) float64 { return float64(r.state.running.Load()) })
	family("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", func(r *replica) float64 { return float64(r.state.waiting.Load()) })
	family("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", func(r *replica) float64 { return 1 - float64(r.state.free.Load())/float64(s.blocks) })
	family("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", func(r *replica) float64 { return float64(r.state.prompt.Load()) })
	family("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", func(r *replica) float64 { return float64(r.state.output.Load()) })
	family("vllm:num_preemptions_total", "counter", "Cumulative number of preemptions from the engine.", func(r *replica) float64 { return float64(r.state.preemptions.Load()) })
	const success = "vllm:request_success_total"
	family(success, "counter", "Count of successfully processed requests.", func(r *replica) float64 { return float64(r.state.stop.Load()) }, "finished_reason", "stop")
	family(success, "", "", func(r *replica) float64 { return float64(r.state.length.Load()) }, "finished_reason", "length")
	family(success, "", "", func(r *replica) float64 { return float64(r.state.abort.Load()) }, "finished_reason", "abort")
	if s.cfg.Step == 0 {
		const info = "vllm:cache_config_info"
		b = fmt.Appendf(b, "# HELP %s Information of the LLMEngine CacheConfig\n# TYPE %s gauge\n", info, info)
		for _, r := range s.replicas {
			b = fmt.Appendf(b, "%s{block_size=\"%d\",cache_dtype=\"auto\",enable_prefix_caching=\"False\",engine=\"%d\",num_gpu_blocks=\"%d\"} 1\n", info, blockTokens, r.index, s.blocks)
		}
	}
	return b
}
