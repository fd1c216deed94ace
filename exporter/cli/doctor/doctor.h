// `doctor`: finds which features of the exporter work on this node, and the effect of each missing
// one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/config/config.h"

namespace gpusnoop::doctor {

// The findings of an examination, and their formats.

// The worst last.
enum class Verdict { ok, warn, fail };

struct Finding {
    std::string check;  // a word: "btf", "CAP_BPF"
    Verdict verdict = Verdict::ok;
    std::string found;     // the state found; may contain paths and names from anywhere
    std::string costs;     // what does not work because of it; empty for most that is ok
    std::string remedy{};  // what to do about it, a command if there is one; empty if nothing is
};

// ok: everything works. warn: the exporter runs, but something is missing. fail: it does not start,
// or would count nothing.
[[nodiscard]] Verdict overall(std::span<const Finding> findings);

// 0, 1 and 2, in the order of the verdicts.
[[nodiscard]] int exit_code(Verdict verdict);

// A line for each, a summary line, and what to do about what is missing.
[[nodiscard]] std::string to_text(std::span<const Finding> findings);
// An object: "verdict", and "checks" with each one's "check", "verdict", "found",
// "costs" and, if there is one, "remedy".
[[nodiscard]] std::string to_json(std::span<const Finding> findings);

// Tries everything as the exporter would, with the capabilities of this process, and undoes it: no
// probe stays attached, no file is written. `config` is the configuration, or the mistakes in it;
// with mistakes, the defaults are examined. `config_name` is its name in the findings.
[[nodiscard]] std::vector<Finding> examine(const Result<config::Config> &config,
                                           const std::string &config_name);

}  // namespace gpusnoop::doctor
