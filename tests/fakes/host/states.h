// What a thread spends its time on, each for so many milliseconds.

#pragma once

namespace spends {

// Ends the program with the error if it is not.
void check(bool is_right, const char *what);

void sleep_for(int ms);
void burn(int ms);  // of CPU time
void burn_us(int us);
void burn_wall(int ms);  // of wall time
void compete(int ms);    // of wall time, while two other processes want the same CPU
void wait_on_futex(int ms);
void read_pipe(int ms);
void read_socket(int ms);
void receive(int ms);  // of a socket
void read_terminal(int ms);
void read_event(int ms);  // an eventfd
void wait_for_child(int ms);
void stop(int ms);

}  // namespace spends
