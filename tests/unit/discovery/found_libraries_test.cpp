// Which files discovery says there are, and how many processes use them.
#include "exporter/discovery/found_libraries.h"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <vector>

using namespace gpusnoop;
using namespace gpusnoop::discovery;

namespace {

class SomeAttacher final : public Attacher {
public:
    [[nodiscard]] bool wants(std::string_view) const override { return true; }
    Result<> attach(const Library &) override { return {}; }
    void detach(const FileId &, bool) override {}
    void failed(std::string_view) override {}
};

// A process that has ended, and is not waited for elsewhere: its id is not soon given again.
std::uint32_t ended_process() {
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::_exit(0);
    }
    ::waitpid(pid, nullptr, 0);
    return static_cast<std::uint32_t>(pid);
}

Library library(const FileId &id, const std::string &path) {
    return {id, Fd(), path.substr(path.rfind('/') + 1), path, false};
}

const FileId a{.inode = 1};
const FileId b{.inode = 2};
const auto self = static_cast<std::uint32_t>(::getpid());
const auto parent = static_cast<std::uint32_t>(::getppid());

}  // namespace

TEST_CASE("a file counts the processes that use it and run, each once") {
    const SomeAttacher cuda;
    const SomeAttacher func;
    FoundLibraries found;
    found.used(cuda, a, "liba.so", self);
    found.used(func, a, "liba.so", self);
    found.used(cuda, a, "liba.so", parent);
    found.used(cuda, a, "liba.so", ended_process());
    const auto list = found.list();
    REQUIRE(list.size() == 1);
    CHECK(list[0].id == a);
    CHECK(list[0].name == "liba.so");
    CHECK(list[0].path.empty());
    CHECK(list[0].processes == 2);
}

TEST_CASE("files are in use as long as a process maps one of them, by the last look") {
    const SomeAttacher cuda;
    FoundLibraries found;
    CHECK_FALSE(found.has_users());
    found.named(cuda, b, "libb.so");
    CHECK_FALSE(found.has_users());
    found.used(cuda, a, "liba.so", self);
    CHECK(found.has_users());
    found.begin_look();
    CHECK(found.has_users());
    (void)found.end_look({});
    CHECK_FALSE(found.has_users());
}

TEST_CASE("a look at all processes finds who does not use a file any more") {
    const SomeAttacher cuda;
    FoundLibraries found;
    found.used(cuda, a, "liba.so", self);
    found.used(cuda, a, "liba.so", parent);
    found.begin_look();
    found.used(cuda, a, "liba.so", parent);
    CHECK(found.list().at(0).processes == 2);  // nobody sees half a look
    (void)found.end_look({});
    CHECK(found.list().at(0).processes == 1);
    found.begin_look();
    (void)found.end_look({});
    CHECK(found.list().at(0).processes == 0);
}

TEST_CASE("processes that a look could not read use what they used before") {
    const SomeAttacher cuda;
    FoundLibraries found;
    found.used(cuda, a, "liba.so", self);
    found.used(cuda, a, "liba.so", parent);
    found.used(cuda, b, "libb.so", parent);
    for (int looks = 0; looks < 3; looks++) {
        found.begin_look();
        CHECK(found.end_look({self, 5'000'000}) == std::set<FileId>{a});
        CHECK(found.list().at(0).processes == 1);
        CHECK(found.list().at(1).processes == 0);
    }
    found.begin_look();
    found.used(cuda, b, "libb.so", self);  // it was read now, and uses the other file
    CHECK(found.end_look({}).empty());
    CHECK(found.list().at(0).processes == 0);
    CHECK(found.list().at(1).processes == 1);
}

TEST_CASE("who could not attach to a file, and why, until it can") {
    const SomeAttacher cuda;
    const SomeAttacher func;
    FoundLibraries found;
    found.used(cuda, a, "liba.so", self);
    found.used(func, a, "liba.so", self);
    found.failed(cuda, a, "not an ELF file");
    found.failed(func, a, "busy");
    found.failed(func, b, "nobody has asked for this one");
    using Problems = std::map<const Attacher *, std::string>;
    CHECK(found.list().at(0).problems == Problems{{&cuda, "not an ELF file"}, {&func, "busy"}});
    found.settled(func, library(a, "/lib/liba.so"));
    found.settled(func, library(b, "/lib/libb.so"));
    REQUIRE(found.list().size() == 1);
    CHECK(found.list().at(0).problems == Problems{{&cuda, "not an ELF file"}});
    CHECK(found.list().at(0).path == "/lib/liba.so");
    found.settled(func, library(a, ""));  // its process is gone
    CHECK(found.list().at(0).path == "/lib/liba.so");
}

TEST_CASE("a file is forgotten when nobody wants it any more; the others are listed by path") {
    const SomeAttacher cuda;
    const SomeAttacher func;
    FoundLibraries found;
    found.used(cuda, a, "liba.so", self);
    found.used(func, a, "liba.so", self);
    found.used(cuda, b, "libb.so", self);
    found.settled(cuda, library(a, "/z/liba.so"));
    found.settled(cuda, library(b, "/b/libb.so"));
    found.failed(cuda, a, "broken");
    CHECK(found.list().at(0).id == b);
    found.forget(cuda, a);
    REQUIRE(found.list().size() == 2);
    CHECK(found.list().at(1).problems.empty());
    found.forget(func, a);
    found.forget(func, a);
    REQUIRE(found.list().size() == 1);
    CHECK(found.list().at(0).id == b);
}

TEST_CASE("processes that come and go between two looks do not pile up") {
    const SomeAttacher cuda;
    FoundLibraries found;
    // Past all ids that the kernel gives.
    for (std::uint32_t pid = 5'000'000; pid < 5'100'000; pid++) {
        found.used(cuda, a, "liba.so", pid);
        REQUIRE(found.remembered(a) <= 1024);
    }
    found.used(cuda, a, "liba.so", self);
    CHECK(found.list().at(0).processes == 1);
}

TEST_CASE("a file that is attached to before any process maps it is listed, with none") {
    const SomeAttacher cuda;
    FoundLibraries found;
    found.named(cuda, a, "libcuda.so.1");
    found.settled(cuda, library(a, "/usr/lib/libcuda.so.1"));
    REQUIRE(found.list().size() == 1);
    CHECK(found.list()[0].path == "/usr/lib/libcuda.so.1");
    CHECK(found.list()[0].processes == 0);
    found.used(cuda, a, "libcuda.so.1", self);
    CHECK(found.list()[0].processes == 1);
    found.forget(cuda, a);
    CHECK(found.list().empty());
}
