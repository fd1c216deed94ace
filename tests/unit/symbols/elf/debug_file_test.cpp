// Debug files, as objcopy makes them, of libraries without a symbol table.
#include "exporter/symbols/elf/debug_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stop_token>

#include "exporter/base/work_limit.h"
#include "exporter/config/globs.h"
#include "exporter/probes/functions/select/selection.h"
#include "exporter/symbols/stacks/stack_namer.h"
#include "tests/harness/machine/directory.h"
#include "tests/unit/symbols/elf/elf_questions.h"
#include "tests/unit/symbols/stacks/proc_mapped_files.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;
namespace fs = std::filesystem;

namespace {

fs::path standin(const std::string &name) {
    return fs::path(GPUSNOOP_STANDIN) / "stripped" / name;
}

// A root of its own, with the library in /opt/lib.
class Root {
public:
    explicit Root(const std::string &kind) : kind_(kind) {
        fs::create_directories(path() / "opt/lib");
        fs::copy(standin(kind) / "libstripped.so.1", library());
    }

    [[nodiscard]] fs::path path() const { return directory_.path(); }
    [[nodiscard]] fs::path library() const { return path() / "opt/lib/libstripped.so.1"; }
    void put_debug_file(const fs::path &at) const { put(standin(kind_), at); }
    void put(const fs::path &from, const fs::path &at) const {
        fs::create_directories((path() / at).parent_path());
        fs::copy(from / "libstripped.so.1.debug", path() / at);
    }
    [[nodiscard]] bool is_found(const WorkLimit &limit = {}) const {
        const Fd fd(::open(library().c_str(), O_RDONLY | O_CLOEXEC));
        const ElfFile file = open_good(fd);
        const std::string in_root = "/opt/lib/libstripped.so.1";
        return find_debug_file_beside(fd.get(), path(), file, in_root, limit) != nullptr ||
               find_installed_debug_file(path(), file, in_root, limit) != nullptr;
    }

private:
    std::string kind_;
    harness::TemporaryDirectory directory_;
};

std::string id_path(const std::string &kind) {
    const Fd fd(::open((standin(kind) / "libstripped.so.1").c_str(), O_RDONLY | O_CLOEXEC));
    const std::string id = open_good(fd).build_id().value();
    return "usr/lib/debug/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug";
}

struct Stripped {
    explicit Stripped(const std::string &kind)
        : fd(::open((standin(kind) / "libstripped.so.1").c_str(), O_RDONLY | O_CLOEXEC)),
          file(open_good(fd)) {}
    void use_debug_file(const std::string &kind) {
        auto debug = file.open_debug_file(
            Fd(::open((standin(kind) / "libstripped.so.1.debug").c_str(), O_RDONLY | O_CLOEXEC)));
        INFO((debug ? "" : debug.error().message));
        REQUIRE(debug);
        file.use_debug_file(*debug);
    }

    Fd fd;
    ElfFile file;
};

std::vector<ListedFunction> debug_file_list(const ElfFile &file) {
    auto listed =
        file.list_functions([](std::string_view name) { return name.starts_with("stripped_"); });
    REQUIRE(listed);
    return *listed;
}

}  // namespace

TEST_CASE("a debug file is found where debuggers look for it", "[debug_file]") {
    const std::string kind = GENERATE("by_id", "by_link");
    const std::string place = GENERATE("opt/lib/", "opt/lib/.debug/", "usr/lib/debug/opt/lib/",
                                       "usr/lib/debug/.build-id");
    if (kind == "by_link" && place == "usr/lib/debug/.build-id") {
        return;
    }
    CAPTURE(kind, place);
    const Root root(kind);
    CHECK_FALSE(root.is_found());
    root.put_debug_file(place == "usr/lib/debug/.build-id" ? id_path(kind)
                                                           : place + "libstripped.so.1.debug");
    CHECK(root.is_found());
}

TEST_CASE("a debug file of another build is none", "[debug_file]") {
    const std::string kind = GENERATE("by_id", "by_link");
    const Root root(kind);
    root.put(standin("other"), "opt/lib/libstripped.so.1.debug");
    CHECK_FALSE(root.is_found());
    root.put_debug_file("opt/lib/.debug/libstripped.so.1.debug");
    CHECK(root.is_found());
}

TEST_CASE("a debug file of others than those who write the library is none", "[debug_file]") {
    if (::getuid() != 0) {
        SKIP("needs root, to give files to others");
    }
    const Root root("by_id");
    root.put_debug_file("opt/lib/libstripped.so.1.debug");
    const std::string debug = root.path() / "opt/lib/libstripped.so.1.debug";
    REQUIRE(::chmod(root.library().c_str(), 0755) == 0);
    REQUIRE(::chmod(debug.c_str(), 0644) == 0);
    CHECK(root.is_found());
    REQUIRE(::chmod(debug.c_str(), 0666) == 0);
    CHECK_FALSE(root.is_found());
    REQUIRE(::chmod(debug.c_str(), 0664) == 0);
    CHECK_FALSE(root.is_found());
    REQUIRE(::chmod(root.library().c_str(), 0775) == 0);  // the same group
    CHECK(root.is_found());
    REQUIRE(::chown(debug.c_str(), 1000, 1000) == 0);
    CHECK_FALSE(root.is_found());
    REQUIRE(::chown(root.library().c_str(), 1000, 1000) == 0);
    CHECK(root.is_found());
    REQUIRE(::chown(debug.c_str(), 0, 1000) == 0);
    CHECK(root.is_found());
}

TEST_CASE("a debug file of the wrong checksum is none where there is no build id", "[debug_file]") {
    const Root root("by_link");
    root.put_debug_file("opt/lib/libstripped.so.1.debug");
    std::ofstream(root.path() / "opt/lib/libstripped.so.1.debug", std::ios::app) << '\0';
    CHECK_FALSE(root.is_found());
}

TEST_CASE("debug files are read no longer than the work that they are for", "[debug_file]") {
    const Root root("by_link");
    root.put_debug_file("opt/lib/libstripped.so.1.debug");
    root.put_debug_file("usr/lib/debug/opt/lib/libstripped.so.1.debug");
    std::stop_source stop;
    CHECK(root.is_found({.stop = stop.get_token()}));
    CHECK_FALSE(root.is_found({.until = std::chrono::steady_clock::now()}));
    stop.request_stop();
    CHECK_FALSE(root.is_found({.stop = stop.get_token()}));
}

TEST_CASE("what is no file, or lies outside the root, is no debug file", "[debug_file]") {
    const Root root("by_id");
    const fs::path place = root.path() / "opt/lib/libstripped.so.1.debug";
    REQUIRE(::mkfifo(place.c_str(), 0600) == 0);
    CHECK_FALSE(root.is_found());
    fs::remove(place);
    fs::create_symlink(standin("by_id") / "libstripped.so.1.debug", place);
    CHECK_FALSE(root.is_found());
    fs::remove(place);
    // A link can lead to a file system that does not answer: only one of the system is followed.
    fs::create_symlink("/usr/lib/real", place);
    root.put_debug_file("usr/lib/real");
    CHECK_FALSE(root.is_found());
    fs::create_directories(root.path() / "usr/lib/debug/opt/lib");
    fs::create_symlink("/usr/lib/real",  // as is seen from the root
                       root.path() / "usr/lib/debug/opt/lib/libstripped.so.1.debug");
    CHECK(root.is_found());
}

TEST_CASE("a stripped library has its static functions from its debug file", "[debug_file]") {
    const std::string kind = GENERATE("by_id", "by_link");
    CAPTURE(kind);
    Stripped stripped(kind);
    REQUIRE_FALSE(stripped.file.has_symtab());
    REQUIRE(debug_file_list(stripped.file).size() == 2);
    stripped.use_debug_file(kind);
    const auto functions = debug_file_list(stripped.file);
    REQUIRE(functions.size() == 3);
    CHECK(functions[1].name == "stripped_hidden");
    CHECK(functions[1].in_debug_file);
    CHECK(functions[1].size > 0);
    CHECK_FALSE(functions[0].in_debug_file);
    CHECK_FALSE(functions[2].in_debug_file);
    CHECK(names_at(stripped.file, {functions[1].file_offset + 1}) ==
          std::vector<std::string>{"stripped_hidden"});
    stripped.file.use_debug_file(nullptr);
    CHECK(debug_file_list(stripped.file).size() == 2);
}

// Its word alone is not enough for a probe in the code of others.
TEST_CASE("a debug file that lies about places has no functions there", "[debug_file]") {
    Stripped stripped("by_id");
    const Root root("by_id");
    root.put_debug_file("lying");
    const std::string lying = root.path() / "lying";
    std::uint64_t place = 0;
    std::uint64_t size = 0;
    SECTION("inside of a function") {
        place = 1;
    }
    SECTION("about its size") {
        size = 0x1000;
    }
    const Fd fd(::open(lying.c_str(), O_RDWR | O_CLOEXEC));
    stripped.use_debug_file("by_id");
    const ListedFunction truth = debug_file_list(stripped.file).at(1);
    // The symbol, wherever it is: by its value and size, which DWARF has before it.
    const std::uintmax_t bytes = fs::file_size(lying);
    std::string text(bytes, '\0');
    REQUIRE(::pread(fd.get(), text.data(), bytes, 0) == static_cast<ssize_t>(bytes));
    std::array<std::uint64_t, 2> words{truth.vaddr, truth.size};
    const std::size_t at =
        text.rfind(std::string_view(reinterpret_cast<const char *>(words.data()), sizeof(words)));
    REQUIRE(at != std::string::npos);
    words[0] += place;
    words[1] += size;
    REQUIRE(::pwrite(fd.get(), words.data(), sizeof(words), static_cast<off_t>(at)) ==
            sizeof(words));
    auto debug = stripped.file.open_debug_file(Fd(::open(lying.c_str(), O_RDONLY | O_CLOEXEC)));
    REQUIRE(debug);
    stripped.file.use_debug_file(*debug);
    const auto functions = debug_file_list(stripped.file);
    if (place != 0) {
        CHECK(functions.size() == 2);
    } else {
        REQUIRE(functions.size() == 3);
        CHECK(functions[1].size >= truth.size);
        CHECK(functions[1].size < truth.size + 0x100);
    }
}

TEST_CASE("a damaged debug file is no trap, and neither is a damaged library", "[debug_file]") {
    const std::string kind = GENERATE("by_id", "by_link");
    const auto read = [&](const std::string &name) {
        std::ifstream file(standin(kind) / name, std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        const auto bytes = std::as_bytes(std::span(text));
        return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    const auto library = read("libstripped.so.1");
    const auto symbols = read("libstripped.so.1.debug");
    std::mt19937 random(7);
    int used = 0;
    for (int i = 0; i < 2'000; i++) {
        auto damaged = i % 2 == 0 ? library : symbols;
        for (unsigned times = 1 + random() % 8; times > 0; times--) {
            damaged[random() % damaged.size()] = static_cast<std::byte>(random());
        }
        const Fd fd = file_of(i % 2 == 0 ? damaged : library);
        auto file = ElfFile::open(fd.get());
        if (!file) {
            continue;
        }
        for (const std::string &path : installed_debug_paths(*file, "/lib/libstripped.so.1")) {
            CHECK(path.starts_with('/'));
        }
        auto debug = file->open_debug_file(file_of(i % 2 == 0 ? symbols : damaged));
        if (!debug) {
            continue;
        }
        used++;
        file->use_debug_file(*debug);
        if (const auto listed = file->list_functions([](auto) { return true; })) {
            for (const ListedFunction &function : *listed) {
                CHECK(function.file_offset < library.size());
            }
        }
        const std::array<std::uint64_t, 2> offsets{0x1000, 0x1100};
        (void)file->functions_at(offsets);
    }
    CHECK((kind == "by_link" || used > 500));
}

TEST_CASE("a function that only a debug file names has no return probe", "[debug_file]") {
    Stripped stripped("by_id");
    stripped.use_debug_file("by_id");
    probes::FunctionGroup group;
    group.libraries = {"libstripped.so.1"};
    group.functions = {{.symbol = "stripped_*", .is_glob = true}};
    const auto selection =
        probes::select_functions(stripped.file, stripped.fd.get(), "libstripped.so.1",
                                 "/lib/libstripped.so.1", {{"g", group}}, 100);
    REQUIRE(selection);
    REQUIRE(selection->functions.size() == 3);
    for (const auto &function : selection->functions) {
        CAPTURE(function.name);
        CHECK(function.ending == (function.name == "stripped_hidden"
                                      ? probes::ExitStrategy::exits
                                      : probes::ExitStrategy::return_probe));
    }
}

TEST_CASE("stacks have the names of static functions from debug files", "[debug_file]") {
    const std::string kind = GENERATE("by_id", "by_link", "inside");
    void *const library = ::dlopen((standin(kind) / "libstripped.so.1").c_str(), RTLD_NOW);
    REQUIRE(library != nullptr);
    using Address = void *();
    auto *const address = reinterpret_cast<Address *>(::dlsym(library, "stripped_address"));
    REQUIRE(address != nullptr);
    MappedFilesCounts counts;
    StackNamer namer(std::make_unique<ProcMappedFiles>(counts));
    const std::array<StackRequest, 1> requests{{{1,
                                                 static_cast<std::uint32_t>(::getpid()),
                                                 {reinterpret_cast<std::uint64_t>(address()) + 2},
                                                 0}}};
    const auto answers = namer.name(requests);
    REQUIRE(answers.size() == 1);
    REQUIRE(answers[0].frames.size() == 1);
    CHECK(answers[0].frames[0].function == "stripped_hidden");
    CHECK(answers[0].frames[0].offset == 2);
    ::dlclose(library);
}
