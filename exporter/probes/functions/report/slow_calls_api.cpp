#include "exporter/probes/functions/report/slow_calls_api.h"

#include <string>
#include <utility>

#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/functions/report/call_json.h"

namespace gpusnoop::probes {

namespace {

ApiResponse write_slow_calls(const std::vector<SlowCall> &all, const ListQuery &query) {
    std::string text = "{";
    JsonList list(text, slow_calls_page_name, query.limit());
    for (const SlowCall &call : all) {
        if (query.wants("function", call.function->name) &&
            query.wants("library", call.function->library) && query.wants_process(call.pid, call)) {
            list.add([&] { return to_json(call); });
        }
    }
    const std::size_t left_out = list.end();
    return end_page(std::move(text), left_out);
}

}  // namespace

ApiPage slow_calls_page(std::vector<SlowCall> all) {
    return list_page(slow_calls_page_name, process_parameters({{"function"}, {"library"}}),
                     std::move(all), write_slow_calls);
}

}  // namespace gpusnoop::probes
