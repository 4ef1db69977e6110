# What the tests of webhooks, AMQP 1.0 and Kafka need: an HTTP server, brokers in the process of the
# test, and another implementation of signatures.
find_package(OpenSSL REQUIRED)
find_package(Boost 1.81 REQUIRED)
target_link_libraries(dovetail_transport_tests PRIVATE dovetail::server OpenSSL::SSL OpenSSL::Crypto
  PkgConfig::RDKAFKA qpid-proton-cpp qpid-proton)
target_include_directories(dovetail_transport_tests SYSTEM PRIVATE ${Boost_INCLUDE_DIRS})
set_source_files_properties(transport/support/http_endpoint.cpp transport/support/amqp_broker.cpp
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)

find_program(DOVETAIL_NPM npm)
find_program(DOVETAIL_NODE NAMES node nodejs)
if(NOT DOVETAIL_NPM OR NOT DOVETAIL_NODE)
  return()
endif()
include(DovetailDashboard)
set(webhook_tests ${CMAKE_CURRENT_SOURCE_DIR}/transport/webhook)
set(webhook_packages ${CMAKE_CURRENT_BINARY_DIR}/webhook)
dovetail_dashboard_packages(${webhook_tests} ${webhook_packages})
if(DOVETAIL_DASHBOARD_READY)
  set(webhook_paths DOVETAIL_NODE="${DOVETAIL_NODE}"
      DOVETAIL_WEBHOOK_PACKAGES="${webhook_packages}"
      DOVETAIL_WEBHOOK_SCRIPT="${webhook_tests}/standard_webhooks.mjs")
  set_source_files_properties(transport/webhook_interop_test.cpp PROPERTIES
    COMPILE_DEFINITIONS "${webhook_paths}" SKIP_UNITY_BUILD_INCLUSION ON
    SKIP_PRECOMPILE_HEADERS ON)
endif()
