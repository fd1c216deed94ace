// What an examination found, and how it is told.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace gpusnoop::doctor {

// Worst last.
enum class Verdict { ok, warn, fail };

struct Finding {
    std::string check;  // a word: "btf", "CAP_BPF"
    Verdict verdict = Verdict::ok;
    std::string found;  // what is there; may hold paths and names from anywhere
    std::string
        costs;  // what does not work because of it, or what to do; empty for most that is ok
};

// ok: everything works. warn: the exporter runs, and something is missing. fail: it does not start,
// or would see nothing.
[[nodiscard]] Verdict overall(std::span<const Finding> findings);

// 0, 1 and 2.
[[nodiscard]] int exit_code(Verdict verdict);

// A line for each, and one that sums up.
[[nodiscard]] std::string to_text(std::span<const Finding> findings);
// An object: "verdict", and "checks" with "check", "verdict", "found" and "costs" of each.
[[nodiscard]] std::string to_json(std::span<const Finding> findings);

}  // namespace gpusnoop::doctor
