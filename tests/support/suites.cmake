# Included by ctest, with the variables of the file that includes it: registers a program's tests as
# one test per suite and engine. Starting a process for each test takes longer than most tests.
execute_process(COMMAND ${program} --gtest_list_tests OUTPUT_VARIABLE listing
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[[;]" "?" listing "${listing}")  # of comments: characters of CMake lists
string(REPLACE "\n" ";" listing "${listing}")
set(filters "")
foreach(line IN LISTS listing)
  string(REGEX REPLACE " *#.*" "" line "${line}")
  if(line MATCHES "^[^ ].*[.]$")
    set(suite "${line}")
  elseif(line MATCHES "^  .*(/[^/]+)$")
    list(APPEND filters "${suite}*${CMAKE_MATCH_1}")
  elseif(line MATCHES "^  .")
    list(APPEND filters "${suite}*")
  endif()
endforeach()
list(REMOVE_DUPLICATES filters)
foreach(filter IN LISTS filters)
  string(REPLACE ".*" "" name "${kind}.${filter}")
  add_test("${name}" ${program} "--gtest_filter=${filter}" --gtest_brief=1)
  set_tests_properties("${name}" PROPERTIES TIMEOUT 600 LABELS ${kind} ${properties})
endforeach()
