#include "exporter/probes/frame/python/sites.h"

#include "bpf/lib/python/stacks.h"

namespace gpusnoop::probes {

Result<PythonSites> PythonSites::start(PythonTables tables) {
    auto resolver = PythonSiteResolver::start();
    if (!resolver) {
        return tl::unexpected(resolver.error());
    }
    return PythonSites(std::move(*resolver), std::move(tables));
}

void PythonSites::ask(symbols::StackRequest site, const ProcessKey &process, std::uint64_t python) {
    resolver_->ask({.process = process,
                    .site = std::move(site),
                    .python = tables_.stack(process, python),
                    .is_backward = (python & PYTHON_STACK_BACKWARD) != 0});
}

void PythonSites::look_for_python(const ProcessIdentity &process) {
    looks_.try_emplace(process.key);
    if (process.exe.find("python") != process.exe.npos) {
        resolver_->ask({.process = process.key, .site = {}});
    }
}

void PythonSites::rescan(
    const std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> &running,
    std::chrono::nanoseconds now, const std::set<std::uint64_t> &in_use) {
    std::set<ProcessKey> still;
    for (const auto &[process, started] : running) {
        still.insert(process);
    }
    std::erase_if(looks_, [&](const auto &look) { return !still.contains(look.first); });
    for (auto &[process, look] : looks_) {
        if (++look.waited >= look.next) {
            look = {.waited = 0, .next = 2 * look.next};
            resolver_->ask({.process = process, .site = {}});
        }
    }
    tables_.forget_unused(now, in_use);
}

void PythonSites::hand_answers_to(const std::function<void(symbols::StackReply)> &take) {
    for (SiteAnswer &answer : resolver_->answers()) {
        if (answer.site) {
            take(std::move(*answer.site));
        } else if (answer.python) {
            looks_.erase(answer.process);
            tables_.set_interpreter(answer.process, *answer.python);
        }
    }
}

}  // namespace gpusnoop::probes
