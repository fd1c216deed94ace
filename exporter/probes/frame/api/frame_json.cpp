#include "exporter/probes/frame/api/frame_json.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;

Json known(const std::string &text) {
    return text.empty() ? Json() : Json(text);
}

}  // namespace

Json frame_json(const symbols::Frame &frame) {
    // Without a function or a file, the offset would be an address of the process.
    const bool has_offset = !frame.function.empty() || !frame.module.empty();
    return {{"function", known(frame.function)},
            {"module", known(frame.module)},
            {"offset", has_offset ? Json(frame.offset) : Json()}};
}

std::string to_text(const Json &json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpusnoop::probes
