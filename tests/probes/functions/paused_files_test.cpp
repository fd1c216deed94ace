// What named functions may cost a process, with the exporter's own classes in this process: for
// what cannot be brought about from outside.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bpf/functions/functions.h"
#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/functions/attach/attached_files.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/attach/programs.h"
#include "exporter/probes/functions/limit/governor.h"
#include "exporter/probes/functions/select/selection.h"
#include "exporter/probes/functions/setting_groups.h"
#include "exporter/probes/functions/settings.h"
#include "exporter/symbols/elf/elf_file.h"
#include "tests/harness/exporter.h"
#include "tests/harness/machine/directory.h"

// Not by using directives: other tests are compiled with this one.
namespace gpusnoop::probes {

namespace {

using harness::eventually;

FunctionGroup named_group(const std::vector<std::string> &symbols, bool entry_only) {
    FunctionGroup group;
    group.libraries = {"*"};
    for (const std::string &symbol : symbols) {
        group.functions.push_back({.symbol = symbol, .is_glob = symbol == "*"});
    }
    group.options.entry_only = entry_only;
    return group;
}

// A copy of a library of which functions are attached to, together.
class AttachedCopy {
public:
    AttachedCopy(const std::string &mode, const std::filesystem::path &original,
                 const std::vector<std::string> &symbols, bool entry_only = false)
        : path_(directory_ / original.filename().string()) {
        std::filesystem::copy_file(original, path_);
        FunctionsConfig config;
        config.attach = mode == "session" ? ebpf::Attach::session : ebpf::Attach::multi;
        auto loaded = FunctionPrograms::load(config, {}, {});
        REQUIRE(loaded);
        programs_ = std::move(*loaded);
        files_ = std::make_unique<AttachedFiles>(*programs_, table_);
        library_.file = Fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
        struct stat status{};
        REQUIRE(::fstat(library_.file.get(), &status) == 0);
        library_.id.inode = status.st_ino;
        library_.name = path_.filename().string();
        const auto elf = symbols::ElfFile::open(library_.file.get());
        REQUIRE(elf);
        auto selection =
            select_functions(*elf, library_.file.get(), library_.name, path_.string(),
                             {{"group", named_group(symbols, entry_only)}}, FUNC_MUTABLE);
        REQUIRE(selection);
        functions_ = std::move(selection->functions);
    }

    void attach() {
        const auto change = files_->change(library_, functions_);
        REQUIRE(change);
        REQUIRE(change->functions > 0);
    }

    // Numbers that no function has are given until only these are left that can be muted.
    void leave_numbers(std::uint32_t left) {
        while (last_ + 1 < FUNC_MUTABLE - left) {
            last_ = table_.add({"none", "none", "none", {}});
            fillers_.push_back(last_);
        }
    }
    void give_numbers_back() {
        std::vector<FunctionIds::Change> changes;
        for (const std::uint32_t number : std::exchange(fillers_, {})) {
            changes.push_back({number, nullptr, true, false});
        }
        table_.change(std::move(changes));
        REQUIRE(table_.apply(table_.queued()));
    }

    [[nodiscard]] FunctionPlace place(const std::string &symbol) const {
        const auto found = std::ranges::find(functions_, symbol, &SelectedFunction::symbol);
        REQUIRE(found != functions_.end());
        return {library_.id, found->entry};
    }
    [[nodiscard]] std::uint32_t number(const std::string &symbol) const {
        for (const auto &[number, cost] : files_->costs()) {
            if (cost.place == place(symbol)) {
                return number;
            }
        }
        FAIL("not attached to " << symbol);
        return 0;
    }
    Result<> pause(const FunctionPlace &place) { return files_->pause(place.file, {place.entry}); }
    [[nodiscard]] bool is_paused(const FunctionPlace &place) const {
        return files_->paused().contains(place);
    }
    [[nodiscard]] bool is_paused(const std::string &symbol) const {
        return is_paused(place(symbol));
    }
    [[nodiscard]] std::uint64_t entered() const {
        const auto account = ebpf::read_account(programs_->account_map());
        REQUIRE(account);
        return account->entered;
    }

    [[nodiscard]] const std::filesystem::path &path() const { return path_; }
    [[nodiscard]] const std::vector<SelectedFunction> &functions() const { return functions_; }
    [[nodiscard]] FunctionIds &table() { return table_; }
    [[nodiscard]] FunctionPrograms &programs() { return *programs_; }
    [[nodiscard]] AttachedFiles &files() { return *files_; }

private:
    harness::TemporaryDirectory directory_;
    std::filesystem::path path_;
    FunctionIds table_;
    std::vector<std::uint32_t> fillers_;
    std::uint32_t last_ = 0;
    std::unique_ptr<FunctionPrograms> programs_;
    std::unique_ptr<AttachedFiles> files_;
    discovery::Library library_;
    std::vector<SelectedFunction> functions_;
};

// A thread that calls a function of the library all the time.
class CallsAllTheTime {
public:
    CallsAllTheTime(const std::filesystem::path &library, const char *symbol)
        : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        REQUIRE(library_ != nullptr);
        const auto function = reinterpret_cast<long (*)(long)>(::dlsym(library_, symbol));
        REQUIRE(function != nullptr);
        thread_ = std::jthread([this, function](const std::stop_token &stop) {
            for (long i = 0; !stop.stop_requested(); i++) {
                (void)function(i);
                calls_++;
            }
        });
    }
    ~CallsAllTheTime() {
        (void)stop();
        ::dlclose(library_);
    }
    CallsAllTheTime(const CallsAllTheTime &) = delete;
    CallsAllTheTime &operator=(const CallsAllTheTime &) = delete;

    void wait_for_more() const {
        const std::uint64_t before = calls_;
        eventually("more calls", [&] { return calls_ > before + 100; });
    }
    std::uint64_t stop() {
        if (thread_.joinable()) {
            thread_.request_stop();
            thread_.join();
        }
        return calls_;
    }

private:
    void *library_;
    std::atomic<std::uint64_t> calls_ = 0;
    std::jthread thread_;
};

const std::vector<std::string> some_calls = {"calls_plain", "calls_inner", "calls_recurse"};

std::filesystem::path c_library() {
    Dl_info info{};
    REQUIRE(::dladdr(reinterpret_cast<const void *>(&std::puts), &info) != 0);
    return std::filesystem::canonical(info.dli_fname);
}

// Attaches to the functions, and is a governor whose thread waits, when it first asks what a
// process costs, until it is let go.
class HeldGovernor {
public:
    explicit HeldGovernor(AttachedCopy &copy)
        : copy_(copy),
          governor_(3, copy.files(), copy.table(),
                    {.cost_of =
                         [this](const ProcessKey &) {
                             asked_++;
                             released_.wait();
                             return std::uint64_t{1};
                         },
                     .open_reader = [] { return fail("calls in flight cannot be listed"); }}) {
        copy.attach();
        // As the exporter has measured them: a call takes three microseconds.
        copy.programs().set_costs(
            {{copy.programs().mode(),
              {.entry = 1000, .stepped_entry = 1000, .ending = 1000, .record = 1000, .stack = 0}}});
    }
    ~HeldGovernor() { release(); }
    HeldGovernor(const HeldGovernor &) = delete;
    HeldGovernor &operator=(const HeldGovernor &) = delete;

    void hold() {
        note("calls_inner", 1);
        wait_until_asked(1);
    }

    void note(const std::string &symbol, std::uint64_t calls) {
        governor_.note({{process_, copy_.number(symbol), calls}});
    }
    // Of so many functions that are not attached to.
    void note_others(std::size_t functions) {
        std::vector<CallsOfFunction> calls;
        for (std::uint32_t i = 0; i < functions; i++) {
            calls.push_back({process_, 1'000'000 + i, 1});
        }
        governor_.note(calls);
    }
    void release() {
        if (!std::exchange(is_released_, true)) {
            release_.set_value();
        }
    }
    void wait_until_asked(unsigned times) const {
        eventually("the governor to look", [&] { return asked_ >= times; });
    }

private:
    AttachedCopy &copy_;
    ProcessKey process_{static_cast<std::uint32_t>(::getpid()), 1};
    std::atomic<unsigned> asked_ = 0;
    bool is_released_ = false;
    std::promise<void> release_;
    std::shared_future<void> released_ = release_.get_future().share();
    FunctionGovernor governor_;  // the last: its thread uses the members above
};

}  // namespace

TEST_CASE("where too many functions are attached to, no pause counts a call twice",
          "[kernel][modes]") {
    harness::require_bpf();
    const std::string mode =
        GENERATE(Catch::Generators::from_range(harness::attach_modes({"session", "multi"})));
    CAPTURE(mode);
    AttachedCopy copy(mode, harness::standin("libcalls.so.1"), some_calls);
    copy.leave_numbers(static_cast<std::uint32_t>(some_calls.size()));
    copy.attach();
    REQUIRE(copy.number("calls_plain") < FUNC_MUTABLE);
    REQUIRE(copy.files().costs().size() == some_calls.size());
    CallsAllTheTime calls(copy.path(), "calls_inner");
    calls.wait_for_more();
    for (int i = 0; i < 20; i++) {
        const auto paused = copy.pause(copy.place("calls_plain"));
        REQUIRE_FALSE(paused);
        CHECK_THAT(paused.error().message,
                   Catch::Matchers::ContainsSubstring("too many functions"));
        CHECK_FALSE(copy.is_paused("calls_plain"));
        // The numbers that could not be muted are given to the next try.
        (void)copy.table().apply(copy.table().queued());
        CHECK_FALSE(copy.table().is_given(FUNC_MUTABLE));
    }
    CHECK(copy.files().costs().size() == some_calls.size());
    const std::uint64_t made = calls.stop();
    CHECK(copy.entered() == made);

    copy.give_numbers_back();
    REQUIRE(copy.pause(copy.place("calls_plain")));
    CHECK(copy.is_paused("calls_plain"));
    CHECK(copy.files().costs().size() == some_calls.size() - 1);
    CallsAllTheTime again(copy.path(), "calls_inner");
    again.wait_for_more();
    const std::uint64_t more = again.stop();
    CHECK(copy.entered() == made + more);
    CallsAllTheTime of_paused(copy.path(), "calls_plain");
    of_paused.wait_for_more();
    (void)of_paused.stop();
    CHECK(copy.entered() == made + more);
}

TEST_CASE("files can be asked about while the kernel attaches to thousands of functions again",
          "[kernel][modes]") {
    harness::require_bpf();
    const std::string mode =
        GENERATE(Catch::Generators::from_range(harness::attach_modes({"session", "multi"})));
    CAPTURE(mode);
    AttachedCopy copy(mode, c_library(), {"*"}, true);
    REQUIRE(copy.functions().size() > 500);
    copy.attach();
    std::vector<FunctionPlace> places;
    for (const auto &[number, cost] : copy.files().costs()) {
        places.push_back(cost.place);
    }
    // An answer from before the end: nobody has waited for it. This thread may be late, at times.
    int early = 0;
    for (std::size_t i = 0; i < 10; i++) {
        std::uint32_t next = 0;
        while (copy.table().is_given(next)) {
            next++;
        }
        auto pausing = std::async(std::launch::async, [&] { return copy.pause(places[i]); });
        while (!copy.table().is_given(next) &&
               pausing.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
        }
        early += copy.is_paused(places[i]) ? 0 : 1;
        REQUIRE(pausing.get());
        CHECK(copy.is_paused(places[i]));
    }
    CHECK(early > 0);
}

TEST_CASE("calls that come while the governor waits for the kernel are added up",
          "[kernel][modes]") {
    harness::require_bpf();
    const std::string mode =
        GENERATE(Catch::Generators::from_range(harness::attach_modes({"session", "multi"})));
    CAPTURE(mode);
    AttachedCopy copy(mode, harness::standin("libcalls.so.1"), some_calls);
    HeldGovernor governor(copy);
    governor.hold();
    // Of ten seconds, 300 ms may be lost: that is 50,000 calls, as each counts for twice its cost.
    for (int i = 0; i < 10; i++) {
        governor.note("calls_plain", 10'000);
    }
    governor.release();
    eventually("a pause", [&] { return copy.is_paused("calls_plain"); });
    CHECK_FALSE(copy.is_paused("calls_inner"));
}

TEST_CASE("calls that come while the governor waits for the kernel take a bounded room",
          "[kernel][modes]") {
    harness::require_bpf();
    const std::string mode =
        GENERATE(Catch::Generators::from_range(harness::attach_modes({"session", "multi"})));
    CAPTURE(mode);
    AttachedCopy copy(mode, harness::standin("libcalls.so.1"), some_calls);
    HeldGovernor governor(copy);
    governor.hold();
    governor.note("calls_inner", 1);
    governor.note_others(70'000);
    governor.note("calls_plain", 1'000'000);  // for which there is no room
    governor.release();
    governor.wait_until_asked(2);
    governor.note("calls_recurse", 1'000'000);
    eventually("a pause", [&] { return copy.is_paused("calls_recurse"); });
    CHECK_FALSE(copy.is_paused("calls_plain"));
}

}  // namespace gpusnoop::probes
