# What a release consists of: the program alone, the packages and the image.
set(here ${CMAKE_CURRENT_SOURCE_DIR}/packaging)
set(program $<TARGET_FILE:gpusnoop_exporter>)
add_test(NAME "the program needs a C library of 2.34 and nothing else" COMMAND bash ${here}/imports_test.sh ${program})
add_test(NAME "the workflow of releases does what the scripts do" COMMAND /usr/bin/python3 ${here}/workflow_test.py)
set_tests_properties("the program needs a C library of 2.34 and nothing else" "the workflow of releases does what the scripts do"
    PROPERTIES LABELS quick SKIP_RETURN_CODE 4)

add_test(NAME "the program runs and counts with nothing but a C library"
    COMMAND /usr/bin/python3 ${here}/bare_root_test.py ${program} ${CMAKE_BINARY_DIR}/standin here ${PROJECT_SOURCE_DIR}/.deps/libc-trixie)
set_tests_properties("the program runs and counts with nothing but a C library" PROPERTIES LABELS e2e SKIP_RETURN_CODE 4 ${one_at_a_time})

set(demo "the demo says by itself that a program leaks")
add_test(NAME ${demo} COMMAND /usr/bin/python3 ${here}/demo_test.py ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
# It waits for two minutes, and the other tests leave out its programs, as they do for those of in_company.sh.
set_tests_properties(${demo} PROPERTIES LABELS long COST 130 TIMEOUT 600)

# The other tests look at what the first has made.
set(packages "the packages are the same in two runs")
add_test(NAME ${packages} COMMAND bash ${here}/packages_test.sh ${PROJECT_BINARY_DIR})
set_tests_properties(${packages} PROPERTIES FIXTURES_SETUP packages LABELS e2e)
set(of_packages "the Debian package is complete and clean" "the rpm is complete and clean" "the Debian package installs, runs and goes"
    "the rpm installs, runs and goes" "the image is small, and runs")
add_test(NAME "the Debian package is complete and clean" COMMAND bash ${here}/deb_test.sh ${PROJECT_BINARY_DIR})
add_test(NAME "the rpm is complete and clean" COMMAND bash ${here}/rpm_test.sh ${PROJECT_BINARY_DIR})
add_test(NAME "the Debian package installs, runs and goes" COMMAND /usr/bin/python3 ${here}/install_test.py ${PROJECT_BINARY_DIR} deb)
add_test(NAME "the rpm installs, runs and goes" COMMAND /usr/bin/python3 ${here}/install_test.py ${PROJECT_BINARY_DIR} rpm)
add_test(NAME "the image is small, and runs" COMMAND /usr/bin/python3 ${here}/image_test.py ${PROJECT_BINARY_DIR})
set_tests_properties(${of_packages} PROPERTIES FIXTURES_REQUIRED packages LABELS e2e SKIP_RETURN_CODE 4)
# The others only read the files.
set_tests_properties("the Debian package installs, runs and goes" "the rpm installs, runs and goes" "the image is small, and runs"
    PROPERTIES ${one_at_a_time})
