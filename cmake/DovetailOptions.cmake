# Every option of the build. A part that is off needs neither compile time nor a library.
option(DOVETAIL_SQLITE "Build the embedded SQLite engine" ON)
option(DOVETAIL_POSTGRES "Build the PostgreSQL engine" ON)
option(DOVETAIL_CLI "Build the dovetail command" ${PROJECT_IS_TOP_LEVEL})
option(DOVETAIL_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(DOVETAIL_TESTS "Build the tests" OFF)
option(DOVETAIL_BENCHMARKS "Build the benchmarks" OFF)
option(DOVETAIL_INSTALL "Generate the install rules" ${PROJECT_IS_TOP_LEVEL})
option(DOVETAIL_SERVER "Build the HTTP server" OFF)
option(DOVETAIL_TRANSPORTS "Build the broker transports" OFF)
option(DOVETAIL_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
option(DOVETAIL_UNITY "Compile several files at once: faster from a cold start" OFF)
option(DOVETAIL_SYSTEM_PCH "Precompile the headers of the system and of libraries" OFF)
set(DOVETAIL_SANITIZE "" CACHE STRING "Sanitizers for every target, as -fsanitize= takes them")

foreach(part TRANSPORTS)
  if(DOVETAIL_${part})
    message(FATAL_ERROR
            "DOVETAIL_${part}=ON: this version of Dovetail has no such part yet. Leave it OFF.")
  endif()
endforeach()
if(NOT DOVETAIL_SQLITE AND NOT DOVETAIL_POSTGRES)
  message(FATAL_ERROR "Dovetail needs an engine: set DOVETAIL_SQLITE or DOVETAIL_POSTGRES to ON.")
endif()
if(DOVETAIL_TESTS AND NOT (DOVETAIL_SQLITE AND DOVETAIL_POSTGRES AND DOVETAIL_CLI
                           AND DOVETAIL_EXAMPLES AND DOVETAIL_SERVER))
  message(FATAL_ERROR
          "DOVETAIL_TESTS=ON tests both engines, the command, the server and the examples: set "
          "DOVETAIL_SERVER=ON, and leave the others ON.")
endif()
if(DOVETAIL_BENCHMARKS AND NOT DOVETAIL_SQLITE)
  message(FATAL_ERROR "DOVETAIL_BENCHMARKS=ON needs DOVETAIL_SQLITE=ON.")
endif()
