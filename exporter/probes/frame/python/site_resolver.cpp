#include "exporter/probes/frame/python/site_resolver.h"

#include <algorithm>
#include <utility>

#include "exporter/processes/proc.h"
#include "exporter/symbols/stacks/patient_reader.h"

namespace gpusnoop::probes {

namespace {

// As in symbols::StackResolver.
constexpr std::size_t max_batch = 256;
constexpr std::chrono::seconds longest_turn{5};
// A process that makes functions without end has them read again.
constexpr std::size_t max_places = 4096;
// Of each, besides its texts.
constexpr std::size_t bytes_of_place = 256;
// What was read of a process is forgotten when nobody has asked for so long.
constexpr std::chrono::minutes unused_process{2};

// The answer that needs no look-up.
SiteAnswer unresolved(const SiteQuestion &question) {
    SiteAnswer answer{.process = question.process, .site = {}, .python = {}};
    if (question.site) {
        answer.site =
            symbols::StackNamer::unresolved(question.site->ticket, question.site->addresses.size());
    }
    return answer;
}

}  // namespace

Result<std::unique_ptr<PythonSiteResolver>> PythonSiteResolver::start() {
    auto files = symbols::MappedFiles::open();
    if (!files) {
        return tl::unexpected(files.error());
    }
    return std::make_unique<PythonSiteResolver>(std::move(*files));
}

PythonSiteResolver::PythonSiteResolver(std::unique_ptr<symbols::MappedFiles> files,
                                       const UserRoom::Limits &limits)
    : namer_(std::move(files)),
      room_(std::make_shared<UserRoom>(limits)),
      thread_(
          {.max_waiting = max_waiting, .max_batch = max_batch, .longest_turn = longest_turn},
          [this](const std::vector<SiteQuestion> &batch, const WorkLimit &limit, const auto &post) {
              for (SiteAnswer &one : answer(batch, limit)) {
                  post(std::move(one));
              }
              return batch.size();
          },
          [this] { return tidy(); }) {}

void PythonSiteResolver::ask(SiteQuestion question) {
    const std::uint32_t tgid = question.process.tgid;
    if (const auto refused = thread_.ask(tgid, std::move(question))) {
        thread_.post(unresolved(*refused));
    }
}

// Python's functions first: the program may forget its code objects any moment, and the symbols of
// large libraries take seconds.
std::vector<SiteAnswer> PythonSiteResolver::answer(const std::vector<SiteQuestion> &questions,
                                                   const WorkLimit &limit) {
    std::vector<SiteAnswer> answers;
    std::vector<std::vector<Named>> python;
    std::vector<symbols::StackRequest> native;
    for (const SiteQuestion &question : questions) {
        SiteAnswer &one = answers.emplace_back(unresolved(question));
        if (question.site) {
            native.push_back(*question.site);
            python.push_back(name(question, limit));
        } else {
            one.python = look_at(question.process, limit).python;
        }
    }
    std::vector<symbols::StackReply> replies = namer_.name(native, limit);
    std::size_t next = 0;
    for (std::size_t i = 0; i < questions.size(); i++) {
        if (questions[i].site) {
            add_python(questions[i], std::move(python[next]), replies[next]);
            answers[i].site = std::move(replies[next++]);
        }
    }
    return answers;
}

PythonSiteResolver::Process &PythonSiteResolver::look_at(const ProcessKey &key,
                                                         const WorkLimit &limit) {
    Process &process = processes_[key];
    process.used = Clock::now();
    if (!process.room.is_limited()) {
        process.room = UserShare(room_, processes::user_of(key.tgid));
    }
    if (!process.python) {
        process.python = find_python(namer_.files(), key.tgid, limit);
    }
    return process;
}

// One for each of its functions, or none. What is known can be told of a process that has ended.
std::vector<PythonSiteResolver::Named> PythonSiteResolver::name(const SiteQuestion &question,
                                                                const WorkLimit &limit) {
    const std::uint32_t tgid = question.process.tgid;
    const std::uint64_t code_start = question.site->code_start;
    if (question.python.empty() || limit.is_reached()) {
        return {};
    }
    Process &process = look_at(question.process, limit);
    if (!process.python) {
        return {};
    }
    namer_.files().set_limit(limit);
    std::optional<bool> is_readable;
    std::vector<Named> named;
    for (const PythonStackFrame &frame : question.python) {
        const Place place(frame.call.code, frame.identity, frame.call.instruction);
        if (const auto known = process.places.find(place); known != process.places.end()) {
            named.push_back(known->second);
            continue;
        }
        if (!is_readable) {
            // Another program that has reused the id has nothing to do with it.
            is_readable = code_start == 0 || symbols::code_start_of(tgid) == code_start;
        }
        named.push_back(*is_readable && !limit.is_reached() ? read(tgid, process, frame) : Named());
    }
    return named;
}

PythonSiteResolver::Named PythonSiteResolver::read(std::uint32_t tgid, Process &process,
                                                   const PythonStackFrame &frame) {
    const PythonPlace place =
        python_place(namer_.files(), tgid, process.python->code, frame.call, frame.identity);
    Named named{.site = python_site_frame(place), .frame = place.frame()};
    if (place.path.empty()) {
        return named;
    }
    if (process.places.size() >= max_places) {
        process.places.clear();
        process.room = UserShare(room_, processes::user_of(tgid));
    }
    // Without room, it is read again when another site has it.
    if (process.room.take(bytes_of_place + named.site.name.size() + named.frame.function.size() +
                          named.frame.module.size())) {
        process.places.emplace(Place(frame.call.code, frame.identity, frame.call.instruction),
                               named);
    }
    return named;
}

void PythonSiteResolver::add_python(const SiteQuestion &question, std::vector<Named> named,
                                    symbols::StackReply &reply) {
    std::vector<PythonSiteFrame> sites;
    std::vector<PythonFrame> frames;
    for (std::size_t i = 0; i < named.size(); i++) {
        sites.push_back(std::move(named[i].site));
        frames.push_back({.function = std::move(named[i].frame),
                          .is_called_by_c = question.python[i].call.is_called_by_c});
    }
    reply.label = question.is_backward ? python_backward_label(sites) : python_site_label(sites);
    if (!sites.empty() && !reply.label.empty() && !question.is_backward) {
        merge_python(reply.frames, frames);
    }
}

std::optional<PythonSiteResolver::Clock::time_point> PythonSiteResolver::tidy() {
    auto next = namer_.close_unused();
    const auto now = Clock::now();
    std::erase_if(processes_,
                  [&](const auto &known) { return known.second.used + unused_process <= now; });
    for (const auto &[key, process] : processes_) {
        const auto forget = process.used + unused_process;
        next = next ? std::min(*next, forget) : forget;
    }
    return next;
}

}  // namespace gpusnoop::probes
