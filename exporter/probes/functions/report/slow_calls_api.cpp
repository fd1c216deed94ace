#include "exporter/probes/functions/report/slow_calls_api.h"

#include <memory>
#include <string>
#include <utility>

#include "exporter/probes/frame/calls_query.h"
#include "exporter/probes/functions/report/call_json.h"

namespace gpusnoop::probes {

namespace {

// Room for the closing brackets.
constexpr std::size_t closing_bytes_of_slow_calls = 256;

std::string slow_calls_text(const std::vector<SlowCall> &all, const CallsQuery &query) {
    std::string text = R"({"slow_calls":[)";
    std::size_t written = 0;
    std::size_t left_out = 0;
    for (const SlowCall &call : all) {
        if (!query.asks_for(call.function->name, call.function->library, call.comm, call.pid)) {
            continue;
        }
        if (left_out > 0 || written == query.limit) {
            left_out++;
            continue;
        }
        const std::string one = to_json(call);
        if (text.size() + one.size() + closing_bytes_of_slow_calls > max_slow_calls_bytes) {
            left_out++;
            continue;
        }
        text += (written++ == 0 ? "" : ",") + one;
    }
    return text + R"(],"slow_calls_left_out":)" + std::to_string(left_out) + R"(,"truncated":)" +
           (left_out > 0 ? "true}\n" : "false}\n");
}

}  // namespace

ApiResource slow_calls_document(std::vector<SlowCall> all) {
    const auto shared = std::make_shared<const std::vector<SlowCall>>(std::move(all));
    return {"slow_calls", [shared](const QueryParameters &parameters) -> Result<ApiResponse> {
                const auto query = read_calls_query(parameters);
                if (!query) {
                    return tl::unexpected(query.error());
                }
                return ApiResponse{"application/json", slow_calls_text(*shared, *query)};
            }};
}

}  // namespace gpusnoop::probes
