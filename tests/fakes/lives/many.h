// Very many children of `lives`.
#pragma once

namespace many {

// Starts `count` children, as small as processes can be: they share the memory and the files of
// this one, and wait. The number of those that there was room for.
int start(int count);
// Kills them, and waits for their ends.
void end();

}  // namespace many
