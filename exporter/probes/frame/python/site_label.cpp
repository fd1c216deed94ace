#include "exporter/probes/frame/python/site_label.h"

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/symbols/stacks/stack_text.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_frames = 3;

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
}

// Cells are files of ipykernel's, or "<ipython-input-3-8e0d7f>".
bool is_notebook(std::string_view path) {
    return contains(path, "/ipykernel_") || path.starts_with("<ipython-input-");
}

bool is_installed(std::string_view path) {
    return contains(path, "/site-packages/") || contains(path, "/dist-packages/") ||
           contains(path, "/lib/python3.") || contains(path, "/lib64/python3.") ||
           path.starts_with("<frozen ");
}

// "<eval_with_key>.17", "<attrs generated init model.Config>"; but not "<stdin>" and "<string>".
bool is_generated(std::string_view path) {
    return path.starts_with('<') && path != "<stdin>" && path != "<string>";
}

std::string label_after(std::vector<std::string> names, std::span<const PythonSiteFrame> frames) {
    for (const PythonSiteFrame &frame : frames) {
        if (frame.name.empty() || names.size() >= max_frames) {
            continue;
        }
        // A function that calls itself is shown once.
        const bool is_new = names.empty() || names.back() != frame.name;
        if (names.empty() || (frame.is_own && is_new)) {
            names.push_back(frame.name);
        }
    }
    return symbols::joined_site(std::move(names));
}

}  // namespace

PythonSiteFrame python_site_frame(const PythonPlace &place) {
    if (place.path.empty()) {
        return {};
    }
    const auto called = [&](std::string_view file, bool has_line) {
        std::string name =
            trace::printable(std::string(file) + ":" + place.function, trace::max_text_bytes);
        return has_line && place.line ? name + ":" + std::to_string(*place.line) : name;
    };
    const std::string_view path = place.path;
    if (is_notebook(path)) {
        return {.name = called("[notebook]", true), .is_own = true};
    }
    if (contains(path, "/torchinductor_")) {
        return {.name = called("[torchinductor]", false), .is_own = false};
    }
    if (is_generated(path) && !is_installed(path)) {
        return {.name = called("[generated]", false), .is_own = false};
    }
    return {.name = place.frame().function,
            .is_own = !is_installed(path),
            .runs_backward = contains(path, "/torch/autograd/")};
}

std::string python_site_label(std::span<const PythonSiteFrame> frames) {
    return label_after({}, frames);
}

std::string python_backward_label(std::span<const PythonSiteFrame> frames) {
    const bool waits = !frames.empty() && frames.front().runs_backward;
    return label_after({"[backward]"}, waits ? frames : frames.first(0));
}

}  // namespace gpusnoop::probes
