# The dashboard of the server: esbuild bundles its sources at build time, and the result becomes a
# C++ source file. Its packages come from a lockfile, and are installed into the build folder.

# Installs the packages again if the lockfile changed. Sets DOVETAIL_DASHBOARD_READY in the caller.
function(dovetail_dashboard_packages sources folder)
  set(stamp ${folder}/installed)
  set(DOVETAIL_DASHBOARD_READY ON)
  file(SHA256 ${sources}/package-lock.json wanted)
  set(installed "")
  if(EXISTS ${stamp})
    file(READ ${stamp} installed)
  endif()
  if(NOT installed STREQUAL wanted)
    message(STATUS "Installing the packages of ${sources}")
    file(COPY ${sources}/package.json ${sources}/package-lock.json DESTINATION ${folder})
    execute_process(COMMAND ${DOVETAIL_NPM} ci --prefer-offline --no-audit --no-fund
                    WORKING_DIRECTORY ${folder} RESULT_VARIABLE result
                    OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(result EQUAL 0)
      file(WRITE ${stamp} ${wanted})
    else()
      message(STATUS "npm ci failed:\n${output}")
      set(DOVETAIL_DASHBOARD_READY OFF)
    endif()
  endif()
  set(DOVETAIL_DASHBOARD_READY ${DOVETAIL_DASHBOARD_READY} PARENT_SCOPE)
endfunction()

# dovetail_dashboard(sources variable): sets `variable` to the C++ file with the dashboard, or to
# the file without one.
function(dovetail_dashboard sources variable)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/dashboard)
  set(${variable} ${sources}/without_dashboard.cpp PARENT_SCOPE)
  find_program(DOVETAIL_NPM npm)
  find_program(DOVETAIL_NODE NAMES node nodejs)
  mark_as_advanced(DOVETAIL_NPM DOVETAIL_NODE)
  if(DOVETAIL_NPM AND DOVETAIL_NODE)
    set(has_npm ON)
  else()
    set(has_npm OFF)
  endif()
  option(DOVETAIL_DASHBOARD "Put the dashboard into the server; needs npm" ${has_npm})
  if(DOVETAIL_DASHBOARD AND NOT has_npm)
    message(FATAL_ERROR "DOVETAIL_DASHBOARD=ON needs node and npm, which were not found.")
  endif()
  if(NOT DOVETAIL_DASHBOARD)
    message(STATUS "The server is built without the dashboard (npm: ${DOVETAIL_NPM})")
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources}/package-lock.json)
  dovetail_dashboard_packages(${sources} ${folder})
  if(NOT DOVETAIL_DASHBOARD_READY)
    message(WARNING "The packages of the dashboard could not be installed. The server is built "
                    "without the dashboard. Configure again when the npm registry answers, or set "
                    "DOVETAIL_DASHBOARD=OFF.")
    return()
  endif()
  file(GLOB_RECURSE inputs CONFIGURE_DEPENDS ${sources}/src/*.js ${sources}/style/*.css)
  add_custom_command(OUTPUT ${folder}/assets_data.cpp
    COMMAND ${DOVETAIL_NODE} ${sources}/build.mjs --sources ${sources} --output ${folder}
    WORKING_DIRECTORY ${folder}
    DEPENDS ${inputs} ${sources}/build.mjs ${sources}/index.html ${folder}/installed
    COMMENT "Bundling the dashboard" VERBATIM)
  set(${variable} ${folder}/assets_data.cpp PARENT_SCOPE)
  set_property(GLOBAL PROPERTY DOVETAIL_HAS_DASHBOARD ON)
endfunction()
