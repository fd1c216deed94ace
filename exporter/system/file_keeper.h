// A process that has the files of others open for as long as this process has them open.
//
// Who closes a deleted file last frees its blocks: of a huge file, that takes minutes, no signal
// ends it, and a process with a thread in it cannot end. The file's owner chooses when it is
// deleted. So the keeper closes it last, and it uses children for that: one at a time for each
// user, so that a user's files delay no others.
#pragma once

#include <cstdint>
#include <optional>

#include "exporter/base/fd.h"

namespace gpusnoop {

// The same descriptor. The keeper closes the file when it is closed here, and all that has its
// kept(). `user` is whose process led to the file. If there is no keeper, it is as it was. For any
// thread.
[[nodiscard]] Fd keep_open_elsewhere(Fd file, std::optional<std::uint32_t> user);

namespace reader {

// The keeper: keeps the files that come on the socket. Only makes system calls, see
// foreign_reader_child.h.
[[noreturn]] void keep_files(int socket);

}  // namespace reader

}  // namespace gpusnoop
