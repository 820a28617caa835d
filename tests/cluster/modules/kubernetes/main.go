// Command kube is the control plane and the kubelet of one Kubernetes version in one binary:
// the first argument names the component, the rest are its own. One link instead of four
// saves minutes on a small machine, and nothing here differs from upstream's own mains.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"

	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func component(name string) *cobra.Command {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	case "kube-controller-manager":
		return controllermanager.NewControllerManagerCommand()
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background())
	}
	fmt.Fprintln(os.Stderr, "kube: the first argument must name a component: "+
		"kube-apiserver, kube-scheduler, kube-controller-manager or kubelet")
	os.Exit(2)
	return nil
}

func main() {
	if len(os.Args) > 1 {
		os.Args = os.Args[1:]
	}
	os.Exit(cli.Run(component(os.Args[0])))
}
