// One question to an exporter, for commands that end with the answer.
#pragma once

#include <string>
#include <string_view>

#include "exporter/base/result.h"
#include "exporter/cli/top/client/address.h"
#include "exporter/cli/top/client/answer.h"
#include "exporter/cli/top/client/client.h"

namespace gpusnoop::top {

// Waits for the answer, which may be anything. Errors are sentences.
[[nodiscard]] Result<Answer> ask(Client &client, const std::string &target, const Address &address);

// An error, in a sentence, unless the exporter at this address, as a text, has answered with this
// page.
[[nodiscard]] Result<> check(const Answer &answer, std::string_view path,
                             const std::string &address);

}  // namespace gpusnoop::top
