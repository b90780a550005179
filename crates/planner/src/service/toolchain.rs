//! `ToolchainService`, which is not served yet.

use super::Service;
use surety_common::wire::status::unimplemented;
use surety_common::wire::v1;
use surety_common::wire::v1::toolchain_service_server::ToolchainService;
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl ToolchainService for Service {
    async fn submit_action_report(
        &self,
        _: Request<v1::SubmitActionReportRequest>,
    ) -> Result<Response<v1::SubmitActionReportResponse>, Status> {
        Err(unimplemented("SubmitActionReport"))
    }

    async fn list_tasks(
        &self,
        _: Request<v1::ListTasksRequest>,
    ) -> Result<Response<v1::ListTasksResponse>, Status> {
        Err(unimplemented("ListTasks"))
    }

    async fn get_task(
        &self,
        _: Request<v1::GetTaskRequest>,
    ) -> Result<Response<v1::GetTaskResponse>, Status> {
        Err(unimplemented("GetTask"))
    }

    async fn send_mail(
        &self,
        _: Request<v1::SendMailRequest>,
    ) -> Result<Response<v1::SendMailResponse>, Status> {
        Err(unimplemented("SendMail"))
    }
}
