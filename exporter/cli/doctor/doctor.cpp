#include "exporter/cli/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/cli/doctor/checks.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/kernel_types.h"

namespace gpusnoop::doctor {

namespace {

std::string_view name_of(Verdict verdict) {
    switch (verdict) {
        case Verdict::ok:
            return "ok";
        case Verdict::warn:
            return "warn";
        case Verdict::fail:
            break;
    }
    return "fail";
}

constexpr std::size_t max_text = 4096;  // bytes: paths and names come from other users

// One line of valid characters that never move a terminal's cursor.
std::string plain(std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return printable(to_valid_utf8(text, max_text));
}

std::string summary_of(std::span<const Finding> findings) {
    const auto count = [&](Verdict verdict) {
        return std::ranges::count(findings, verdict, &Finding::verdict);
    };
    const auto failed = count(Verdict::fail);
    const auto warned = count(Verdict::warn);
    if (failed > 0) {
        return fmt::format("The exporter cannot work like this: {} of {} checks failed.", failed,
                           findings.size());
    }
    if (warned > 0) {
        return fmt::format("The exporter runs; {} of {} checks found something missing.", warned,
                           findings.size());
    }
    return "Everything works.";
}

std::string remedies(std::span<const Finding> findings, std::size_t width) {
    std::string text;
    for (const Finding &finding : findings) {
        if (finding.verdict != Verdict::ok && !finding.remedy.empty()) {
            text += fmt::format("  {:<{}}  {}\n", finding.check, width, plain(finding.remedy));
        }
    }
    return text.empty() ? "" : "What to do:\n" + text;
}

}  // namespace

Verdict overall(std::span<const Finding> findings) {
    Verdict worst = Verdict::ok;
    for (const Finding &finding : findings) {
        worst = std::max(worst, finding.verdict);
    }
    return worst;
}

int exit_code(Verdict verdict) {
    return static_cast<int>(verdict);
}

std::string to_text(std::span<const Finding> findings) {
    std::size_t width = 0;
    for (const Finding &finding : findings) {
        width = std::max(width, finding.check.size());
    }
    std::string text;
    for (const Finding &finding : findings) {
        text += fmt::format("{:<4}  {:<{}}  {}", name_of(finding.verdict), finding.check, width,
                            plain(finding.found));
        if (!finding.costs.empty()) {
            text += ": " + plain(finding.costs);
        }
        text += '\n';
    }
    return text + "\n" + summary_of(findings) + "\n" + remedies(findings, width);
}

std::string to_json(std::span<const Finding> findings) {
    nlohmann::ordered_json checks = nlohmann::ordered_json::array();
    for (const Finding &finding : findings) {
        checks.push_back({{"check", finding.check},
                          {"verdict", name_of(finding.verdict)},
                          {"found", plain(finding.found)},
                          {"costs", plain(finding.costs)}});
        if (!finding.remedy.empty()) {
            checks.back()["remedy"] = plain(finding.remedy);
        }
    }
    const nlohmann::ordered_json all = {{"verdict", name_of(overall(findings))},
                                        {"checks", checks}};
    return all.dump(2) + "\n";
}

std::vector<Finding> examine(const Result<config::Config> &config, const std::string &config_name) {
    const config::Config settings = config.value_or(config::Config{});
    std::vector<Finding> findings = {
        {"config", config ? Verdict::ok : Verdict::fail,
         config_name + (config ? " is valid" : " is not valid: " + config.error().message),
         config ? "" : "the exporter does not start; the checks below use the defaults"}};
    const auto append = [&](std::vector<Finding> more) {
        findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                        std::make_move_iterator(more.end()));
    };
    const ebpf::SharedKernelTypes types;
    const ebpf::Features features = ebpf::probe_features();
    append(examine_privileges(features, settings));
    append(examine_kernel(features, settings));
    append(examine_node(settings));
    return findings;
}

}  // namespace gpusnoop::doctor
