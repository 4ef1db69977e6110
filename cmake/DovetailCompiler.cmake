# How our own code is compiled. Consumers inherit C++20 and the include path, but no warnings.
find_package(Threads REQUIRED)

add_library(dovetail_build INTERFACE)
target_compile_features(dovetail_build INTERFACE cxx_std_20)
target_compile_options(dovetail_build INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                       -Woverloaded-virtual -Wimplicit-fallthrough)
if(DOVETAIL_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
  # -Wshadow is checked without unity: there, a `using` of one file would shadow names of another.
  target_compile_options(dovetail_build INTERFACE -Wno-shadow)
endif()
if(DOVETAIL_WERROR)
  target_compile_options(dovetail_build INTERFACE -Werror)
endif()
# GCC 12 at -O3 sees overlapping copies in `"text" + std::string` that are not there.
target_compile_options(dovetail_build INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-restrict>)
if(DOVETAIL_SANITIZE)
  target_compile_options(dovetail_build INTERFACE
    -fsanitize=${DOVETAIL_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(dovetail_build INTERFACE -fsanitize=${DOVETAIL_SANITIZE})
endif()
# With the sanitizers, GCC 12 takes parts of std::stop_source and std::jthread for uninitialised.
if(DOVETAIL_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(dovetail_build INTERFACE -Wno-maybe-uninitialized)
endif()
if(DOVETAIL_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC warns about every atomic fence under TSan; Dovetail uses none, libstdc++ does.
  target_compile_options(dovetail_build INTERFACE -Wno-tsan)
endif()

find_program(DOVETAIL_CCACHE ccache)
if(DOVETAIL_CCACHE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DOVETAIL_CCACHE})
endif()

# dovetail_system_headers(target [headers...]): with DOVETAIL_SYSTEM_PCH, precompiles headers that
# are not ours. tools/strict is faster with it.
function(dovetail_system_headers target)
  if(DOVETAIL_SYSTEM_PCH)
    target_precompile_headers(${target} PRIVATE <algorithm> <atomic> <chrono> <condition_variable>
      <deque> <functional> <iostream> <map> <memory> <mutex> <optional> <set> <span>
      <stop_token> <string> <thread> <vector> ${ARGN})
  endif()
endfunction()

# dovetail_library(name alias SOURCES ...): a library with the project's flags and include path.
function(dovetail_library name alias)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  add_library(${name} ${arg_SOURCES})
  add_library(dovetail::${alias} ALIAS ${name})
  set_target_properties(${name} PROPERTIES
    EXPORT_NAME ${alias} POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:dovetail_build>)
  dovetail_system_headers(${name})
endfunction()
